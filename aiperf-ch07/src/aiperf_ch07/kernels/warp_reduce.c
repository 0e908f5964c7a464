// Sums of rows of floats, on the processor's cores.
#include <stdint.h>

#define LANES 16
#define CHAINS 8

// One sum: each addition waits for the result of the addition before it.
static float in_order(const float* from, int64_t n) {
  float total = 0;
  for (int64_t i = 0; i < n; ++i) total += from[i];
  return total;
}

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// 128 sums: eight registers of sixteen lanes, none of which waits for another. Compilers may not reorder sums of
// floats.
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

static inline void each(float (*sum)(const float*, int64_t), const float* a, float* out, int64_t rows,
                        int64_t columns) {
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row) out[row] = sum(a + row * columns, columns);
}
void one_chain(const float* a, float* out, int64_t rows, int64_t columns) { each(in_order, a, out, rows, columns); }
void many_chains(const float* a, float* out, int64_t rows, int64_t columns) { each(in_chains, a, out, rows, columns); }
