// A triad by threads that are pinned to processors, and where its pages lie.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>

#define MASK_WORDS 16      // of 64 nodes each
#define MODE_INTERLEAVE 3  // MPOL_INTERLEAVE of linux/mempolicy.h, which not every system has installed
#define PAGE_FLOATS 1024   // of 4 KiB: no page belongs to two threads

typedef struct {
  int64_t first, end;
} range;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The part of n that a thread of a team has, in whole pages.
static range part(int64_t n, int64_t thread, int64_t threads) {
  const int64_t pages = (n + PAGE_FLOATS - 1) / PAGE_FLOATS;
  return (range){least(n, pages * thread / threads * PAGE_FLOATS), least(n, pages * (thread + 1) / threads * PAGE_FLOATS)};
}

// Pin the calling thread; the processors that it had before.
static cpu_set_t pin(int64_t processor) {
  cpu_set_t before, own;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&own);
  CPU_SET((int)processor, &own);
  sched_setaffinity(0, sizeof own, &own);
  return before;
}

// Write zeros, each thread into the part that it has in `triad`.
void touch(float* memory, int64_t n, const int64_t* processors, int64_t threads) {
#pragma omp parallel num_threads((int)threads)
  {
    const int64_t thread = omp_get_thread_num();
    const cpu_set_t before = pin(processors[thread]);
    const range own = part(n, thread, threads);
    memset(memory + own.first, 0, (size_t)(own.end - own.first) * sizeof(float));
    sched_setaffinity(0, sizeof before, &before);
  }
}

// out = b + scale * c, with b, c and out one after the other, `pitch` apart.
void triad(float* memory, const float* scale, int64_t n, int64_t pitch, const int64_t* processors, int64_t threads) {
#pragma omp parallel num_threads((int)threads)
  {
    const int64_t thread = omp_get_thread_num();
    const cpu_set_t before = pin(processors[thread]);
    const range own = part(n, thread, threads);
    const float *restrict b = memory, *restrict c = memory + pitch;
    float* restrict out = memory + 2 * pitch;
    for (int64_t i = own.first; i < own.end; ++i) out[i] = b[i] + scale[0] * c[i];
    sched_setaffinity(0, sizeof before, &before);
  }
}

// Have pages that are not there yet alternate between nodes. 0, or the error.
int64_t interleave(float* memory, int64_t size, const int64_t* nodes, int64_t count) {
  unsigned long mask[MASK_WORDS] = {0};
  for (int64_t i = 0; i < count; ++i) mask[nodes[i] / 64] |= 1ul << nodes[i] % 64;
  // The kernel reads one bit less than it is told.
  return syscall(SYS_mbind, memory, (unsigned long)size, MODE_INTERLEAVE, mask, 64 * MASK_WORDS + 1, 0) ? errno : 0;
}

// The node of each of so many pages, `stride` bytes apart; negative for a page that is not there. 0, or the error.
int64_t nodes_of(float* memory, int64_t stride, int32_t* nodes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    void* page = (char*)memory + i * stride;
    if (syscall(SYS_move_pages, 0, 1ul, &page, 0, nodes + i, 0)) return errno;
  }
  return 0;
}
#endif
