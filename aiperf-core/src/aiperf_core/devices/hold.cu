// Keeps a stream busy until the host lets go, so that the work queued behind it starts without waiting for launches.
// A call that waits for the GPU by itself would wait for ever; the limit ends that, and is recorded.
extern "C" __global__ void hold(const volatile int* go, int* timed_out, unsigned long long limit_ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  while (*go == 0) {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (now - start > limit_ns) {
      *timed_out = 1;
      return;
    }
  }
}
