// out[r][c] = weight[c] * x[r][c] / sqrt(mean of x[r]^2 + EPSILON), a block of 256 threads for each row.
#define EPSILON 1e-6f
#define THREADS 256

__device__ float sum_of_squares(const float* row, int columns) {
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += THREADS) sum += row[c] * row[c];
  return sum;
}
__device__ void scale_row(const float* row, const float* weight, float* out, int columns, float sum) {
  const float scale = rsqrtf(sum / columns + EPSILON);
  for (int c = threadIdx.x; c < columns; c += THREADS) out[c] = row[c] * scale * weight[c];
}

// The sums of the threads meet in shared memory, in halves: a barrier for each of the 8 steps, and one before.
extern "C" __global__ void block_per_row(const float* __restrict__ x, const float* __restrict__ weight,
                                         float* __restrict__ out, int columns) {
  __shared__ float sums[THREADS];
  const long long start = (long long)blockIdx.x * columns;
  sums[threadIdx.x] = sum_of_squares(x + start, columns);
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  scale_row(x + start, weight, out + start, columns, sums[0]);
}

// The sums of a warp meet by shuffles; those of the 8 warps in shared memory, behind one barrier.
extern "C" __global__ void shuffled(const float* __restrict__ x, const float* __restrict__ weight,
                                    float* __restrict__ out, int columns) {
  __shared__ float sums[THREADS / 32];
  const long long start = (long long)blockIdx.x * columns;
  float sum = sum_of_squares(x + start, columns);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < THREADS / 32; ++warp) sum += sums[warp];
  scale_row(x + start, weight, out + start, columns, sum);
}
