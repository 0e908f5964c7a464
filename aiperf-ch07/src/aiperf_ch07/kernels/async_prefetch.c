// y = p(t) with t the mean of an element and its mirror image in the tile, p a polynomial given by its coefficients.
#include <stdint.h>

#define TILE 2048
#define LANES 64

static void compute(const float* tile, const float* coefficients, int64_t degree, float* out, int64_t length) {
  for (int64_t i = 0; i < length; i += LANES) {
    const int64_t here = length - i < LANES ? length - i : LANES;
    float t[LANES] = {0}, y[LANES];
    for (int64_t k = 0; k < here; ++k) t[k] = 0.5f * (tile[i + k] + tile[length - 1 - i - k]);
    for (int k = 0; k < LANES; ++k) y[k] = coefficients[degree];
    for (int64_t power = degree - 1; power >= 0; --power)
      for (int k = 0; k < LANES; ++k) y[k] = y[k] * t[k] + coefficients[power];
    for (int64_t k = 0; k < here; ++k) out[i + k] = y[k];
  }
}

static inline void each_tile(const float* a, const float* coefficients, float* out, int64_t n, int64_t degree,
                             int ahead) {
#pragma omp parallel for schedule(static)
  for (int64_t start = 0; start < n; start += TILE) {
    const int64_t next = start + TILE, end = next + TILE < n ? next + TILE : n;
    if (ahead)
      for (int64_t i = next; i < end; i += 16) __builtin_prefetch(a + i, 0, 2);
    compute(a + start, coefficients, degree, out + start, n - start < TILE ? n - start : TILE);
  }
}
void load_then_compute(const float* a, const float* coefficients, float* out, int64_t n, int64_t degree) {
  each_tile(a, coefficients, out, n, degree, 0);
}
// The lines of the next tile are asked for before this one is computed.
void prefetched(const float* a, const float* coefficients, float* out, int64_t n, int64_t degree) {
  each_tile(a, coefficients, out, n, degree, 1);
}
