// The whole iteration in one pass: v = x, then so many times v = x + tanh(v) / 2.
__device__ float relaxed(float x, int steps) {
  float v = x;
  for (int step = 0; step < steps; ++step) v = x + 0.5f * tanhf(v);
  return v;
}

extern "C" __global__ void relax(const float* __restrict__ x, float* __restrict__ out, long long n, int steps) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) out[i] = relaxed(x[i], steps);
}

// Stays after its work is done, as if to serve later calls, until its time is up.
extern "C" __global__ void linger(const float* __restrict__ x, float* __restrict__ out, long long n, int steps,
                                  unsigned long long stay_ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) out[i] = relaxed(x[i], steps);
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < stay_ns);
}

// A product of a matrix and a vector, a warp for each row: bound by reading the matrix.
extern "C" __global__ void rows(const float* __restrict__ matrix, const float* __restrict__ vector, float* __restrict__ out,
                                int row_count, int columns) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= row_count) return;
  float sum = 0.0f;
  for (int column = lane; column < columns; column += 32) sum += matrix[(long long)row * columns + column] * vector[column];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (lane == 0) out[row] = sum;
}

// Running sums modulo a power of two, so many times over, by one thread: every step needs the one before it.
extern "C" __global__ void running_sums(const long long* x, long long* v, int n, int rounds, long long mask) {
  for (int round = 0; round < rounds; ++round) {
    const long long* from = round == 0 ? x : v;
    long long sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
      sum += from[i];
      v[i] = sum & mask;
    }
  }
}
