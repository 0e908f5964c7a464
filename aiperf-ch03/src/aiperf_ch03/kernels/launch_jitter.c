// A short step, and a neighbour that keeps a processor busy meanwhile.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// `turns` steps of a generator that each need the one before, modulo 2^64; some 10 us for 8192.
int64_t step(int64_t seed, int64_t turns) {
  uint64_t state = (uint64_t)seed;
  for (int64_t turn = 0; turn < turns; ++turn) state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)state;
}

static pthread_t neighbour;
static atomic_int ended;

static void* busy(void* unused) {
  volatile uint64_t count = 0;
  while (!atomic_load_explicit(&ended, memory_order_relaxed)) count = count + 1;
  return unused;
}

// Keep a processor busy until `leave`, in the idle class of the scheduler or in the usual one. 0, or the error.
int64_t arrive(int64_t processor, bool idle) {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET((int)processor, &own);
  pthread_attr_t attributes;
  const struct sched_param parameters = {0};
  atomic_store(&ended, 0);
  pthread_attr_init(&attributes);
  int error = pthread_attr_setaffinity_np(&attributes, sizeof own, &own);
  if (!error) error = pthread_create(&neighbour, &attributes, busy, 0);
  pthread_attr_destroy(&attributes);
  if (!error && idle) error = pthread_setschedparam(neighbour, SCHED_IDLE, &parameters);
  return error;
}

void leave(void) {
  atomic_store(&ended, 1);
  pthread_join(neighbour, 0);
}
