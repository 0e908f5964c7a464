// A kernel that launches the one that works. Compiled apart from the others: device code that launches must be linked.
// The work lasts as long as it is told to at least, so that it is no gain to have it done this way.
__global__ void child(const float* x, float* out, long long n, int steps, unsigned long long last_ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) {
    float v = x[i];
    for (int step = 0; step < steps; ++step) v = x[i] + 0.5f * tanhf(v);
    out[i] = v;
  }
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < last_ns);
}

extern "C" __global__ void parent(const float* x, float* out, long long n, int steps, unsigned long long last_ns) {
  child<<<128, 256>>>(x, out, n, steps, last_ns);
}
