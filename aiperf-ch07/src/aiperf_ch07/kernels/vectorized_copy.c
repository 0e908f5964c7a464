// A copy of n 4-byte words on the processor's cores.
#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

// One word an instruction: the compiler is kept from making vectors, or a call of memcpy, of this loop.
__attribute__((optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns"))) void scalar(
    const void* restrict a_ptr, void* restrict out_ptr, int64_t n) {
  const uint32_t* a = a_ptr;
  uint32_t* b = out_ptr;
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) b[i] = a[i];
}

// 64 bytes an instruction where the processor has such registers.
typedef uint32_t line __attribute__((vector_size(64), aligned(4), may_alias));

void wide(const void* restrict a_ptr, void* restrict out_ptr, int64_t n) {
  const uint32_t* a = a_ptr;
  uint32_t* b = out_ptr;
#pragma omp parallel for
  for (int64_t k = 0; k < n / 16; ++k) *(line*)(b + 16 * k) = *(const line*)(a + 16 * k);
  for (int64_t i = n / 16 * 16; i < n; ++i) b[i] = a[i];
}

#ifdef __x86_64__
// The same, with stores that bypass the cache: an ordinary one first reads the line that it is about to overwrite.
void streamed(const void* restrict a_ptr, void* restrict out_ptr, int64_t n) {
  const uint32_t* a = a_ptr;
  uint32_t* b = out_ptr;
  int64_t head = (4 - ((uintptr_t)b >> 2 & 3)) & 3;  // words before b is 16-byte aligned
  if (head > n) head = n;
  int64_t quads = (n - head) / 4;
  for (int64_t i = 0; i < head; ++i) b[i] = a[i];
#pragma omp parallel
  {
#pragma omp for
    for (int64_t q = 0; q < quads; ++q) {
      int64_t i = head + 4 * q;
      _mm_stream_si128((__m128i*)(b + i), _mm_loadu_si128((const __m128i*)(a + i)));
    }
    _mm_sfence();  // by every core, so that what it streamed is there when the call returns
  }
  for (int64_t i = head + 4 * quads; i < n; ++i) b[i] = a[i];
}
#endif
