// out[key] += 1 over n keys of one byte, or of two; `out` is zero when a function is called.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COPIES 4

static inline int64_t key_at(const void* keys, int64_t i, int bytes) {
  return bytes == 1 ? ((const uint8_t*)keys)[i] : ((const uint16_t*)keys)[i];
}

// All cores meet at the counters, and each addition takes a cache line away from the others.
static inline void count_atomically(const void* keys, int32_t* out, int64_t n, int bytes) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
#pragma omp atomic
    out[key_at(keys, i, bytes)] += 1;
  }
}
void shared_by_all(const void* keys, int32_t* out, int64_t n, int64_t key_bytes) {
  if (key_bytes == 1) count_atomically(keys, out, n, 1);
  else count_atomically(keys, out, n, 2);
}

// Each core out in `copies` sets of its own, which are added up at the end. An addition to a counter must wait for the
// one before it to the same counter; neighbouring keys go to different sets, and do not wait for each other.
static inline void count_privately(const void* keys, int32_t* out, int64_t n, int64_t bins, int bytes, int copies) {
#pragma omp parallel
  {
    int32_t* own = calloc((size_t)(bins * copies), sizeof *own);
#pragma omp for nowait
    for (int64_t piece = 0; piece < n / COPIES; ++piece)
      for (int k = 0; k < COPIES; ++k) own[(k % copies) * bins + key_at(keys, COPIES * piece + k, bytes)] += 1;
#pragma omp critical
    for (int64_t at = 0; at < bins * copies; ++at) out[at % bins] += own[at];
    free(own);
  }
  for (int64_t i = n / COPIES * COPIES; i < n; ++i) out[key_at(keys, i, bytes)] += 1;
}
void by_core(const void* keys, int32_t* out, int64_t n, int64_t bins, int64_t key_bytes) {
  if (key_bytes == 1) count_privately(keys, out, n, bins, 1, 1);
  else count_privately(keys, out, n, bins, 2, 1);
}
void four_copies(const void* keys, int32_t* out, int64_t n, int64_t bins, int64_t key_bytes) {
  if (key_bytes == 1) count_privately(keys, out, n, bins, 1, COPIES);
  else count_privately(keys, out, n, bins, 2, COPIES);
}
