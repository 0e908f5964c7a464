// out = 2a + 1 on the processor's cores; only the order of the elements differs.
#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

// Every core walks its part with a stride of 32 floats, 32 times over. A cache line holds 16 of them, and of each line
// that a walk fetches it uses one; the line is long evicted when the next walk comes by.
void strided(const float* restrict a, float* restrict out, int64_t n) {
#pragma omp parallel
  {
    int64_t rows = (n + 31) / 32;
    for (int64_t lane = 0; lane < 32; ++lane) {
#pragma omp for nowait
      for (int64_t row = 0; row < rows; ++row) {
        int64_t i = 32 * row + lane;
        if (i < n) out[i] = 2 * a[i] + 1;
      }
    }
  }
}

// Element i * step mod n as the i-th: with step near 0.618 n and no factor in common, no two neighbours in sight.
void permuted(const float* restrict a, float* restrict out, int64_t n, int64_t step) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    int64_t j = i * step % n;
    out[j] = 2 * a[j] + 1;
  }
}

// One element after the other: every line is fetched once and used whole. The compiler makes this SIMD.
void coalesced(const float* restrict a, float* restrict out, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) out[i] = 2 * a[i] + 1;
}

#ifdef __x86_64__
// The same order with stores that pass the cache by. An ordinary store first reads the line that it is about to
// overwrite; these write whole lines straight to memory, 8 bytes an element in all instead of 12.
void streamed(const float* restrict a, float* restrict out, int64_t n) {
  const __m128 two = _mm_set1_ps(2), one = _mm_set1_ps(1);
  int64_t head = n < 4 ? n : (4 - ((uintptr_t)out >> 2 & 3)) & 3;  // elements before out is 16-byte aligned
  int64_t quads = (n - head) / 4;
  for (int64_t i = 0; i < head; ++i) out[i] = 2 * a[i] + 1;
#pragma omp parallel
  {
#pragma omp for
    for (int64_t q = 0; q < quads; ++q) {
      int64_t i = head + 4 * q;
      _mm_stream_ps(out + i, _mm_add_ps(_mm_mul_ps(two, _mm_loadu_ps(a + i)), one));
    }
    _mm_sfence();  // by every core, so that what it streamed is there when the call returns
  }
  for (int64_t i = head + 4 * quads; i < n; ++i) out[i] = 2 * a[i] + 1;
}
#endif
