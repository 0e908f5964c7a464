// Batched matrix products: every core takes whole products, so that none waits for another in between.
#include <stdint.h>

// Of a register: a block has 12 of them for C, of the 16 that AVX2 has.
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define ROWS 6
#define COLUMNS (2 * LANES)

// The floats of a register, loaded from and stored to any address that floats may have.
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// ROWS x COLUMNS elements of C stay in registers while k runs; each is loaded and stored once.
static inline void block(const float* a, const float* b, float* c, int64_t n, int64_t k) {
  vec left[ROWS] = {0}, right[ROWS] = {0};
  for (int64_t p = 0; p < k; ++p) {
    vec b_left = *(const vec*)(b + p * n), b_right = *(const vec*)(b + p * n + LANES);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; ++r) {
      left[r] += a[r * k + p] * b_left;
      right[r] += a[r * k + p] * b_right;
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    *(vec*)(c + r * n) = left[r];
    *(vec*)(c + r * n + LANES) = right[r];
  }
}

// What no full block covers: rows at the bottom, columns at the right.
static void edge(const float* a, const float* b, float* c, int64_t rows, int64_t columns, int64_t n, int64_t k) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < columns; ++j) c[r * n + j] = 0;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < columns; ++j) c[r * n + j] += a[r * k + p] * b[p * n + j];
  }
}

static void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  int64_t full_m = m - m % ROWS, full_n = n - n % COLUMNS;
  // A panel of B, k x COLUMNS, stays in the cache while all rows of A pass over it.
  for (int64_t j = 0; j < full_n; j += COLUMNS)
    for (int64_t i = 0; i < full_m; i += ROWS) block(a + i * k, b + j, c + i * n + j, n, k);
  edge(a + full_m * k, b, c + full_m * n, m - full_m, full_n, n, k);
  edge(a, b + full_n, c + full_n, m, n - full_n, n, k);
}

void over_batch(const float* a, const float* b, float* out, int64_t batch, int64_t m, int64_t n, int64_t k) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < batch; ++i) product(a + i * m * k, b + i * k * n, out + i * m * n, m, n, k);
}
