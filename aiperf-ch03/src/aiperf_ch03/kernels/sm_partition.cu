// Two jobs of swings: a batch whose blocks stay until it is done, and steps that are launched one by one. Blocks of both ask
// for more than half of an SM's shared memory, so that an SM has one at a time.
#define STEP 0.0078125f  // 1 / 128
#define THREADS 256
#define TILE 1024  // elements of a tile of the batch, and threads of its blocks

__device__ __forceinline__ float swung(float place, int rounds) {
  float speed = 0;
  for (int round = 0; round < rounds; ++round) {
    speed = fmaf(-STEP, place, speed);
    place = fmaf(STEP, speed, place);
  }
  return place;
}

// Blocks take the next of all tiles until there is none left. Says in the host's memory that it runs.
extern "C" __global__ void __launch_bounds__(TILE)
    batch(long long running_address, const float* x, float* out, int* next, int rounds, long long n) {
  __shared__ int taken;
  for (;;) {
    if (threadIdx.x == 0) taken = atomicAdd(next, 1);
    __syncthreads();
    const long long first = taken * (long long)TILE, i = first + threadIdx.x;
    __syncthreads();
    if (first >= n) return;
    if (threadIdx.x == 0) *reinterpret_cast<volatile int*>(running_address) = 1;
    if (i < n) out[i] = swung(x[i], rounds);
  }
}

// An element of each thread swings from a place of its own in each step, and adds to a total.
extern "C" __global__ void __launch_bounds__(THREADS)
    step(const float* x, float* total, int step, int rounds, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i < n) total[i] += swung(x[i] / (1 + step), rounds);
}
