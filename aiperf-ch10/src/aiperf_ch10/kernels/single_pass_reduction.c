// The sums of long rows of floats over the processor's cores. What differs is how the sums of a row's parts meet.
#include <stdint.h>

#define LANES 16
#define CHAINS 8
#define PART 16384  // floats

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// 128 sums in eight registers, of which none waits for another.
static float sum_of(const float* from, int64_t n) {
  vec totals[CHAINS] = {0};
  int64_t i = 0;
  for (; i + LANES * CHAINS <= n; i += LANES * CHAINS)
#pragma GCC unroll 8
    for (int k = 0; k < CHAINS; ++k) totals[k] += *(const vec*)(from + i + LANES * k);
  for (int k = 1; k < CHAINS; ++k) totals[0] += totals[k];
  float total = 0;
  for (; i < n; ++i) total += from[i];
  for (int lane = 0; lane < LANES; ++lane) total += totals[0][lane];
  return total;
}
// Part number `part` of all rows, each of which has `parts` of them.
static float sum_of_part(const float* a, int64_t part, int64_t parts, int64_t columns) {
  const int64_t from = part % parts * PART;
  return sum_of(a + part / parts * columns + from, columns - from < PART ? columns - from : PART);
}

// The end of the first loop is the barrier between all cores.
void two_passes(const float* a, float* partials, float* out, int64_t rows, int64_t parts, int64_t columns) {
#pragma omp parallel for
  for (int64_t part = 0; part < rows * parts; ++part) partials[part] = sum_of_part(a, part, parts, columns);
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row) out[row] = sum_of(partials + row * parts, parts);
}

// Cores add to the result, part by part.
void atomic(const float* a, float* out, int64_t rows, int64_t parts, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) out[row] = 0;
#pragma omp parallel for
  for (int64_t part = 0; part < rows * parts; ++part) {
    const float total = sum_of_part(a, part, parts, columns);
#pragma omp atomic
    out[part / parts] += total;
  }
}

// Whichever part of a row is counted last adds up the sums of all: the counter orders it after all the others. It is
// left at zero for the next call.
void last_part(const float* a, float* partials, float* out, int* counters, int64_t rows, int64_t parts,
               int64_t columns) {
#pragma omp parallel for
  for (int64_t part = 0; part < rows * parts; ++part) {
    const int64_t row = part / parts;
    partials[part] = sum_of_part(a, part, parts, columns);
    if (__atomic_add_fetch(counters + row, 1, __ATOMIC_ACQ_REL) < parts) continue;
    counters[row] = 0;
    out[row] = sum_of(partials + row * parts, parts);
  }
}
