// Reads n words of 4, 8 or 16 bytes that lie `stride` words apart, and then those that were left out, so that every word is
// read once. Cores take neighbouring parts.
#include <stdint.h>

typedef uint64_t sixteen __attribute__((vector_size(16), may_alias));

#define SWEEP(TYPE)                                                              \
  const TYPE* words = a;                                                         \
  TYPE all = {0};                                                                \
  _Pragma("omp parallel") {                                                      \
    TYPE total = {0};                                                            \
    for (int64_t lane = 0; lane < stride; ++lane) {                              \
      _Pragma("omp for nowait") for (int64_t row = 0; row < n / stride; ++row)   \
          total += words[row * stride + lane];                                   \
    }                                                                            \
    _Pragma("omp critical") all += total;                                        \
  }                                                                              \
  *(TYPE*)out = all

void sweep4(const void* a, void* out, int64_t n, int64_t stride) { SWEEP(uint32_t); }
void sweep8(const void* a, void* out, int64_t n, int64_t stride) { SWEEP(uint64_t); }
void sweep16(const void* a, void* out, int64_t n, int64_t stride) { SWEEP(sixteen); }
