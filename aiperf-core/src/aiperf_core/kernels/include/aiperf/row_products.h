// For C on a host: the product of two small float32 matrices, a block of rows of which is in the cache, and an exponential.
#pragma once
#include <math.h>
#include <stdint.h>

// Of a register; 12 hold a block of the product, of the 16 that AVX2 has.
#ifdef __AVX512F__
#define PRODUCT_LANES 16
#else
#define PRODUCT_LANES 8
#endif
#define PRODUCT_ROWS 6
#define PRODUCT_COLUMNS (2 * PRODUCT_LANES)

typedef float product_vec __attribute__((vector_size(4 * PRODUCT_LANES), aligned(4), may_alias));

static inline void product_tile(const float* a, const float* b, float* c, int64_t n, int64_t k) {
  product_vec left[PRODUCT_ROWS] = {0}, right[PRODUCT_ROWS] = {0};
  for (int64_t p = 0; p < k; ++p) {
    product_vec b_left = *(const product_vec*)(b + p * n), b_right = *(const product_vec*)(b + p * n + PRODUCT_LANES);
#pragma GCC unroll 6
    for (int r = 0; r < PRODUCT_ROWS; ++r) {
      left[r] += a[r * k + p] * b_left;
      right[r] += a[r * k + p] * b_right;
    }
  }
  for (int r = 0; r < PRODUCT_ROWS; ++r) {
    *(product_vec*)(c + r * n) = left[r];
    *(product_vec*)(c + r * n + PRODUCT_LANES) = right[r];
  }
}

// c[m, n] = a[m, k] b[k, n]. `a` and `c` have memory for a multiple of PRODUCT_ROWS rows.
static void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  int64_t full = n - n % PRODUCT_COLUMNS;
  for (int64_t j = 0; j < full; j += PRODUCT_COLUMNS)
    for (int64_t i = 0; i < m; i += PRODUCT_ROWS) product_tile(a + i * k, b + j, c + i * n + j, n, k);
  for (int64_t i = 0; i < m && full < n; ++i) {
    for (int64_t j = full; j < n; ++j) c[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = full; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
  }
}

// exp(x), to a few units in the last place, in a form that a compiler makes vectors of. 2^n has n in its exponent's bits;
// what is left is at most ln(2) / 2, where terms beyond the seventh of the series are below 1e-8.
static inline float exponential(float x) {
  x = fminf(fmaxf(x, -87.0f), 88.0f);
  float n = nearbyintf(x * 1.44269504f);
  float rest = fmaf(n, -0.693145752f, x);  // ln(2) in two parts, so that the difference is exact
  rest = fmaf(n, -1.42860677e-6f, rest);
  float sum = 1.0f / 5040;
  sum = fmaf(sum, rest, 1.0f / 720), sum = fmaf(sum, rest, 1.0f / 120), sum = fmaf(sum, rest, 1.0f / 24);
  sum = fmaf(sum, rest, 1.0f / 6), sum = fmaf(sum, rest, 0.5f), sum = fmaf(sum, rest, 1.0f);
  union {
    int32_t bits;
    float value;
  } power = {((int32_t)n + 127) << 23};
  return fmaf(sum, rest, 1.0f) * power.value;
}
