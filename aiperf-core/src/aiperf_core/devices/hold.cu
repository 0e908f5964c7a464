// `empty` does nothing, for measurements of clocks; `mark` marks the end of a call in a trace.
extern "C" __global__ void empty() {}
extern "C" __global__ void mark() {}

// Reads `pieces` times 16 bytes of zeros, a piece a thread: lines that were written go to memory, and clean ones take
// their place in L2. The store, which zeros never reach, keeps the compiler from leaving out the loads.
extern "C" __global__ void read_zeros(void* buffer, long long pieces) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= pieces) return;
  uint4* place = static_cast<uint4*>(buffer) + i;
  const uint4 piece = *place;
  if (piece.x | piece.y | piece.z | piece.w) *place = make_uint4(0, 0, 0, 0);
}

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
