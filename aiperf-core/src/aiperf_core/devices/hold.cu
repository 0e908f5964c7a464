// `empty` does nothing, for measurements of clocks; `mark` marks the end of a call in a trace.
extern "C" __global__ void empty() {}
extern "C" __global__ void mark() {}

// Keeps a stream busy until the host releases it, so that the work queued behind it starts without launch latency.
// A call that waits for the GPU itself would never return; the limit ends the wait and is recorded.
// The flags lie in pinned host memory and are passed as plain addresses.
extern "C" __global__ void hold(unsigned long long go_address, unsigned long long timed_out_address,
                                unsigned long long limit_ns) {
  const volatile int* go = reinterpret_cast<const volatile int*>(go_address);
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  while (*go == 0) {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (now - start > limit_ns) {
      *reinterpret_cast<volatile int*>(timed_out_address) = 1;
      return;
    }
  }
}
