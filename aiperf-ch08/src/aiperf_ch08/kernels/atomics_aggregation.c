// The elements of a that are not negative, side by side in out, on the processor's cores.
#include <omp.h>
#include <stdint.h>
#include <string.h>

#define TILE 4096

// Moves what is kept of `count` elements to `to`, which has room for all; without a branch that nobody can foresee.
static inline int64_t moved(const int32_t* a, int64_t count, int32_t* to) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    to[kept] = a[i];
    kept += a[i] >= 0;
  }
  return kept;
}
static inline int64_t length_at(int64_t start, int64_t n) { return n - start < TILE ? n - start : TILE; }

// Each core counts its part, and then knows where it goes: the order stays.
void two_passes(const int32_t* a, int32_t* out, int64_t n) {
  int64_t counts[256] = {0};
#pragma omp parallel num_threads(omp_get_max_threads() < 256 ? omp_get_max_threads() : 256)
  {
    const int me = omp_get_thread_num(), all = omp_get_num_threads();
    const int64_t begin = n * me / all, end = n * (me + 1) / all;
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += a[i] >= 0;
    counts[me] = count;
#pragma omp barrier
    int64_t place = 0;
    for (int t = 0; t < me; ++t) place += counts[t];
    int32_t buffer[TILE];
    for (int64_t start = begin; start < end; start += TILE) {
      const int64_t kept = moved(a + start, length_at(start, end), buffer);
      memcpy(out + place, buffer, 4 * kept);
      place += kept;
    }
  }
}

void per_element(const int32_t* a, int32_t* out, int64_t n) {
  int64_t next = 0;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i)
    if (a[i] >= 0) out[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)] = a[i];
}

void per_block(const int32_t* a, int32_t* out, int64_t n) {
  int64_t next = 0;
#pragma omp parallel for schedule(static)
  for (int64_t start = 0; start < n; start += TILE) {
    int32_t buffer[TILE];
    const int64_t kept = moved(a + start, length_at(start, n), buffer);
    memcpy(out + __atomic_fetch_add(&next, kept, __ATOMIC_RELAXED), buffer, 4 * kept);
  }
}
