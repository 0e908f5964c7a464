// Rounds over words by a team of threads, in each of which every thread waits for the last of them.
#define _GNU_SOURCE  // pthread_barrier_t
#include <pthread.h>
#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>

// The barrier of the runtime: a thread spins for milliseconds before it sleeps.
static void wait_as_runtime(void* unused) {
  (void)unused;
#pragma omp barrier
}
static void wait_asleep(void* barrier) { pthread_barrier_wait(barrier); }

// words[2][n]: round r reads half r % 2 and writes the other. A word becomes 5 times itself and its right neighbour,
// modulo 2^64, so no thread may begin a round before its neighbour has ended the last.
static void play(int64_t* words, int64_t n, int64_t rounds, int threads, void (*wait)(void*), void* barrier) {
#pragma omp parallel num_threads(threads)
  {
    const int64_t first = n * omp_get_thread_num() / threads, end = n * (omp_get_thread_num() + 1) / threads;
    for (int64_t round = 0; round < rounds; ++round) {
      const int64_t* restrict from = words + round % 2 * n;
      int64_t* restrict to = words + (1 - round % 2) * n;
      for (int64_t i = first; i < end; ++i)
        to[i] = (int64_t)(5 * (uint64_t)from[i] + (uint64_t)from[i + 1 < n ? i + 1 : 0]);
      wait(barrier);
    }
  }
}

void spinning(int64_t* words, int64_t n, int64_t rounds, int64_t threads) {
  play(words, n, rounds, (int)threads, wait_as_runtime, 0);
}

void sleeping(int64_t* words, int64_t n, int64_t rounds, int64_t threads) {
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, 0, (unsigned)threads);
  play(words, n, rounds, (int)threads, wait_asleep, &barrier);
  pthread_barrier_destroy(&barrier);
}
#endif
