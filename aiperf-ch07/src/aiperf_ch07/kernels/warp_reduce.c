// Sums of rows of floats, on the processor's cores. A row is cut into `parts`, whose sums are added at the end.
#include <stdint.h>

#define LANES 16
#define CHAINS 8

// One sum a part: each addition waits for the one before it, four clocks or so.
static float in_order(const float* from, int64_t n) {
  float total = 0;
  for (int64_t i = 0; i < n; ++i) total += from[i];
  return total;
}

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// 128 sums in eight registers, none of which waits for another.
static float in_chains(const float* from, int64_t n) {
  vec totals[CHAINS] = {0};
  int64_t i = 0;
  for (; i + LANES * CHAINS <= n; i += LANES * CHAINS)
#pragma GCC unroll 8
    for (int k = 0; k < CHAINS; ++k) totals[k] += *(const vec*)(from + i + LANES * k);
  for (int k = 1; k < CHAINS; ++k) totals[0] += totals[k];
  float total = in_order(from + i, n - i);
  for (int lane = 0; lane < LANES; ++lane) total += totals[0][lane];
  return total;
}

static inline void each(float (*sum)(const float*, int64_t), const float* a, float* sums, int64_t rows, int64_t columns,
                        int64_t parts) {
#pragma omp parallel for
  for (int64_t at = 0; at < rows * parts; ++at) {
    int64_t row = at / parts, start = at % parts * columns / parts, end = (at % parts + 1) * columns / parts;
    sums[at] = sum(a + row * columns + start, end - start);
  }
}
void one_chain(const float* a, float* sums, int64_t rows, int64_t columns, int64_t parts) {
  each(in_order, a, sums, rows, columns, parts);
}
void many_chains(const float* a, float* sums, int64_t rows, int64_t columns, int64_t parts) {
  each(in_chains, a, sums, rows, columns, parts);
}
