// What all kernels of the iteration share: sums over a block and over the parts of blocks, and the end of an iteration.
//
// Sums over the grid are made in two steps, in the same order every time: each block writes its part, and whoever needs the
// sum adds the parts. `progress` holds the number of iterations, and 1 while they go on; a kernel that is launched beyond
// the last iteration sees that and returns.
#pragma once

#define THREADS 256
#define ITERATIONS 0
#define GOES_ON 1
#define RESIDUAL 0
#define ENOUGH 1

// The sum of a value of each thread, for all threads of the block.
__device__ double block_sum(double value) {
  __shared__ double parts[THREADS / 32];
  for (int distance = 16; distance; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  __syncthreads();  // the sum before this one may still be read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < THREADS / 32; ++warp) sum += parts[warp];
  return sum;
}

__device__ double sum_of(const volatile double* parts, int count) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += THREADS) sum += parts[i];
  return block_sum(sum);
}

// What one block does at the end of an iteration: whether there is another.
__device__ void decide_block(const double* residuals, double* state, long long* progress, int parts, int most) {
  double residual = sum_of(residuals, parts);
  if (threadIdx.x || !progress[GOES_ON]) return;
  state[RESIDUAL] = residual;
  progress[ITERATIONS] += 1;
  progress[GOES_ON] = residual > state[ENOUGH] && progress[ITERATIONS] < most;
}
