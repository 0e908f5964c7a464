// Rounds with memory of their own, for one thread. Each function returns 0, or the system's error.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

static void one_round(const float* x, float* scratch, float* total, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) scratch[i] = x[i] * factor;
  __asm__ volatile("" ::: "memory");  // the scratch memory is written, and read again
  for (int64_t i = 0; i < n; ++i) total[i] += scratch[i];
}

static float* pages(int64_t n) {
  void* found = mmap(0, n * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return found == MAP_FAILED ? 0 : found;
}

// From the system, and back to it, in each round.
int32_t from_system(const float* x, float* total, const float* factors, int64_t rounds, int64_t n) {
  for (int64_t r = 0; r < rounds; ++r) {
    float* scratch = pages(n);
    if (!scratch) return errno;
    one_round(x, scratch, total, factors[r], n);
    munmap(scratch, n * sizeof(float));
  }
  return 0;
}

// What a round gives back is kept for the next one, until the call is over.
int32_t pool(const float* x, float* total, const float* factors, int64_t rounds, int64_t n) {
  float* kept = 0;
  for (int64_t r = 0; r < rounds; ++r) {
    float* scratch = kept ? kept : pages(n);
    if (!scratch) return errno;
    one_round(x, scratch, total, factors[r], n);
    kept = scratch;
  }
  if (kept) munmap(kept, n * sizeof(float));
  return 0;
}

// Nothing is asked for.
int32_t preallocated(const float* x, float* total, const float* factors, float* scratch, int64_t rounds, int64_t n) {
  for (int64_t r = 0; r < rounds; ++r) one_round(x, scratch, total, factors[r], n);
  return 0;
}
