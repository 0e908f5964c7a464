// C = A B for n x n floats by rows, on the processor's cores.
#include <stdint.h>
#include <string.h>

#define ROWS 64      // of A and C in a block
#define DEPTH 64     // rows of B in a block
#define COLUMNS 256  // of B and C in a block: DEPTH x COLUMNS floats are 64 KiB, which the second-level cache holds

// An element after the other, each from a row and a column. A column has one word in each line that it touches.
void one_output(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float total = 0;
      for (int64_t k = 0; k < n; ++k) total += a[i * n + k] * b[k * n + j];
      out[i * n + j] = total;
    }
}

// A row of C after the other, to which rows of B are added: every line is used whole, and SIMD takes 16 at once.
void by_rows(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    memset(out + i * n, 0, (size_t)n * sizeof *out);
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
  }
}

static inline int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

// The same, a block of B at a time, which stays in the cache while 64 rows of A pass over it; a piece of a row of C
// stays in the first-level cache meanwhile.
void blocked(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
#pragma omp parallel for schedule(dynamic)
  for (int64_t i0 = 0; i0 < n; i0 += ROWS) {
    const int64_t i_end = least(i0 + ROWS, n);
    memset(out + i0 * n, 0, (size_t)((i_end - i0) * n) * sizeof *out);
    for (int64_t j0 = 0; j0 < n; j0 += COLUMNS)
      for (int64_t k0 = 0; k0 < n; k0 += DEPTH)
        for (int64_t i = i0; i < i_end; ++i)
          for (int64_t k = k0; k < least(k0 + DEPTH, n); ++k)
            for (int64_t j = j0; j < least(j0 + COLUMNS, n); ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
  }
}
