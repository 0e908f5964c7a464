// out[c][r] = in[r][c] for words of 4 bytes (float) or 2 (bfloat16), of which only the bits count.
#include <stdint.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#define BLOCK 32

// Reads by rows, writes by columns: each store goes to a line of its own, and before the next word of that line is
// written a whole column has passed through the cache.
#define DIRECT(Word)                                                               \
  const Word* in = a;                                                              \
  Word* to = out;                                                                  \
  _Pragma("omp parallel for")                                                      \
  for (int64_t r = 0; r < rows; ++r)                                               \
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = in[r * columns + c]
void direct4(const void* restrict a, void* restrict out, int64_t rows, int64_t columns) { DIRECT(uint32_t); }
void direct2(const void* restrict a, void* restrict out, int64_t rows, int64_t columns) { DIRECT(uint16_t); }

static inline int64_t end_of(int64_t start, int64_t length) { return start + BLOCK < length ? start + BLOCK : length; }

// By blocks of 32 x 32, whose lines on both sides stay in the first-level cache until they are used up.
#define BLOCKED(Word)                                                                            \
  const Word* in = a;                                                                            \
  Word* to = out;                                                                                \
  _Pragma("omp parallel for")                                                                    \
  for (int64_t c0 = 0; c0 < columns; c0 += BLOCK)                                                \
    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK)                                                 \
      for (int64_t c = c0; c < end_of(c0, columns); ++c)                                         \
        for (int64_t r = r0; r < end_of(r0, rows); ++r) to[c * rows + r] = in[r * columns + c]
void blocked4(const void* restrict a, void* restrict out, int64_t rows, int64_t columns) { BLOCKED(uint32_t); }
void blocked2(const void* restrict a, void* restrict out, int64_t rows, int64_t columns) { BLOCKED(uint16_t); }

#ifdef __AVX__
// 8 x 8 words in eight registers: three rounds of exchanges between pairs of them.
static inline void eight_by_eight(const float* in, float* out, int64_t columns, int64_t rows) {
  __m256 a[8], b[8];
  for (int k = 0; k < 8; ++k) a[k] = _mm256_loadu_ps(in + k * columns);
  for (int k = 0; k < 8; k += 2) {
    b[k] = _mm256_unpacklo_ps(a[k], a[k + 1]);
    b[k + 1] = _mm256_unpackhi_ps(a[k], a[k + 1]);
  }
  for (int k = 0; k < 8; k += 4) {
    a[k] = _mm256_shuffle_ps(b[k], b[k + 2], 0x44);
    a[k + 1] = _mm256_shuffle_ps(b[k], b[k + 2], 0xee);
    a[k + 2] = _mm256_shuffle_ps(b[k + 1], b[k + 3], 0x44);
    a[k + 3] = _mm256_shuffle_ps(b[k + 1], b[k + 3], 0xee);
  }
  for (int k = 0; k < 4; ++k) {
    _mm256_storeu_ps(out + k * rows, _mm256_permute2f128_ps(a[k], a[k + 4], 0x20));
    _mm256_storeu_ps(out + (k + 4) * rows, _mm256_permute2f128_ps(a[k], a[k + 4], 0x31));
  }
}

// The same blocks, moved by eight loads and eight stores of 32 bytes for 64 words.
void blocked_simd4(const void* restrict a, void* restrict out, int64_t rows, int64_t columns) {
  const float* in = a;
  float* to = out;
#pragma omp parallel for
  for (int64_t c0 = 0; c0 < columns; c0 += BLOCK) {
    for (int64_t r0 = 0; r0 < rows; r0 += BLOCK) {
      int64_t c = c0, c_end = end_of(c0, columns), r_end = end_of(r0, rows);
      for (; c + 8 <= c_end; c += 8) {
        int64_t r = r0;
        for (; r + 8 <= r_end; r += 8) eight_by_eight(in + r * columns + c, to + c * rows + r, columns, rows);
        for (; r < r_end; ++r)
          for (int64_t k = c; k < c + 8; ++k) to[k * rows + r] = in[r * columns + k];
      }
      for (; c < c_end; ++c)
        for (int64_t r = r0; r < r_end; ++r) to[c * rows + r] = in[r * columns + c];
    }
  }
}
#endif
