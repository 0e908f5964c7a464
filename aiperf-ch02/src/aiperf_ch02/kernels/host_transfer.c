// A copy by all processors, with stores that bypass the cache.
#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>

void streamed(const void* restrict from_ptr, void* restrict to_ptr, int64_t n) {
  const int32_t* from = from_ptr;
  int32_t* to = to_ptr;
  int64_t head = (4 - ((uintptr_t)to >> 2 & 3)) & 3;  // values before `to` is 16-byte aligned
  if (head > n) head = n;
  const int64_t quads = (n - head) / 4;
  for (int64_t i = 0; i < head; ++i) to[i] = from[i];
#pragma omp parallel
  {
#pragma omp for
    for (int64_t q = 0; q < quads; ++q) {
      const int64_t i = head + 4 * q;
      _mm_stream_si128((__m128i*)(to + i), _mm_loadu_si128((const __m128i*)(from + i)));
    }
    _mm_sfence();  // by every core, so that what it streamed is there when the call returns
  }
  for (int64_t i = head + 4 * quads; i < n; ++i) to[i] = from[i];
}
#endif
