// Swings: chains of dependent multiply-adds. Blocks ask for more than half of an SM's shared memory, so that an SM has one at
// a time, as it does with large products: a block of another stream waits until it ends.
#define STEP 0.0078125f  // 1 / 128
#define THREADS 256
#define BUSY_THREADS 1024

__device__ __forceinline__ float swung(float place, int rounds) {
  float speed = 0;
  for (int round = 0; round < rounds; ++round) {
    speed = fmaf(-STEP, place, speed);
    place = fmaf(STEP, speed, place);
  }
  return place;
}

// An element of each thread swings from a place of its own in each step, and adds to a total.
extern "C" __global__ void __launch_bounds__(THREADS)
    foreground(const float* x, float* total, int step, int rounds, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i < n) total[i] += swung(x[i] / (1 + step), rounds);
}

// The same with `each` elements a thread, one after another. Says in the host's memory that it runs.
extern "C" __global__ void __launch_bounds__(BUSY_THREADS)
    background(long long running_address, const float* x, float* total, int step, int rounds, int each, long long n) {
  if (threadIdx.x == 0) *reinterpret_cast<volatile int*>(running_address) = 1;
  for (int number = 0; number < each; ++number) {
    const long long i = (blockIdx.x * (long long)each + number) * BUSY_THREADS + threadIdx.x;
    if (i < n) total[i] += swung(x[i] / (1 + step), rounds);
  }
}
