// out = a + b on the processor's cores.
#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

// One value an instruction: the compiler is kept from making vectors of this loop.
__attribute__((optimize("no-tree-vectorize"))) void one_at_a_time(const float* restrict a, const float* restrict b,
                                                                  float* restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void simd(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void threads(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

#ifdef __x86_64__
void streamed(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
  int64_t head = (4 - ((uintptr_t)out >> 2 & 3)) & 3;  // elements before out is 16-byte aligned
  if (head > n) head = n;
  const int64_t quads = (n - head) / 4;
  for (int64_t i = 0; i < head; ++i) out[i] = a[i] + b[i];
#pragma omp parallel
  {
#pragma omp for
    for (int64_t q = 0; q < quads; ++q) {
      const int64_t i = head + 4 * q;
      _mm_stream_ps(out + i, _mm_add_ps(_mm_loadu_ps(a + i), _mm_loadu_ps(b + i)));
    }
    _mm_sfence();  // by every core, so that what it streamed is there when the call returns
  }
  for (int64_t i = head + 4 * quads; i < n; ++i) out[i] = a[i] + b[i];
}
#endif
