// Nothing, to see what the clocks make of it; and the end of a call, to be found again in a trace.
extern "C" __global__ void empty() {}
extern "C" __global__ void mark() {}

// Keeps a stream busy until the host lets go, so that the work queued behind it starts without waiting for launches.
// A call that waits for the GPU by itself would wait for ever; the limit ends that, and is recorded.
// The flags lie in pinned memory of the host and are passed as plain addresses.
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
