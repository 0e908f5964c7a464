// Conjugate gradients for (1 + strength L) x = b, where L is the five-point Laplacian of a grid with zeros around it.
#include "graph_while.cuh"

#define EACH(i, count) for (int i = blockIdx.x * THREADS + threadIdx.x; i < (count); i += gridDim.x * THREADS)

__device__ double start_block(double* x, double* r, double* p, const double* b, int n) {
  double sum = 0;
  EACH(i, n * n) {
    double value = b[i];
    x[i] = 0, r[i] = value, p[i] = value, sum += value * value;
  }
  return block_sum(sum);
}

// q = A p, and the block's part of p q.
__device__ double apply_block(double* q, const double* p, int n, float strength) {
  double k = strength, sum = 0;
  EACH(i, n * n) {
    int row = i / n, column = i % n;
    double around = 0, value = p[i];
    if (row > 0) around += p[i - n];
    if (row + 1 < n) around += p[i + n];
    if (column > 0) around += p[i - 1];
    if (column + 1 < n) around += p[i + 1];
    double applied = (1 + 4 * k) * value - k * around;
    q[i] = applied;
    sum += value * applied;
  }
  return block_sum(sum);
}

// x += alpha p, r -= alpha q, and the block's part of r r.
__device__ double advance_block(double* x, double* r, const double* p, const double* q, double alpha, int n) {
  double sum = 0;
  EACH(i, n * n) {
    x[i] += alpha * p[i];
    double left = r[i] - alpha * q[i];
    r[i] = left;
    sum += left * left;
  }
  return block_sum(sum);
}

__device__ void turn_block(double* p, const double* r, double beta, int n) {
  EACH(i, n * n) p[i] = r[i] + beta * p[i];
}

extern "C" __global__ void begin(double* x, double* r, double* p, const double* b, double* residuals, int n) {
  double part = start_block(x, r, p, b, n);
  if (threadIdx.x == 0) residuals[blockIdx.x] = part;
}

// One block.
extern "C" __global__ void aim(const double* residuals, double* state, long long* progress, int parts, float accuracy) {
  double residual = sum_of(residuals, parts);
  if (threadIdx.x) return;
  state[RESIDUAL] = residual;
  state[ENOUGH] = (double)accuracy * accuracy * residual;
  progress[ITERATIONS] = 0;
  progress[GOES_ON] = residual > state[ENOUGH];
}

extern "C" __global__ void apply(double* q, const double* p, double* products, const long long* progress, int n,
                                 float strength) {
  if (!progress[GOES_ON]) return;
  double part = apply_block(q, p, n, strength);
  if (threadIdx.x == 0) products[blockIdx.x] = part;
}

extern "C" __global__ void advance(double* x, double* r, const double* p, const double* q, const double* products,
                                   double* residuals, const double* state, const long long* progress, int n) {
  if (!progress[GOES_ON]) return;
  double alpha = state[RESIDUAL] / sum_of(products, gridDim.x);
  double part = advance_block(x, r, p, q, alpha, n);
  if (threadIdx.x == 0) residuals[blockIdx.x] = part;
}

extern "C" __global__ void turn(double* p, const double* r, const double* residuals, const double* state,
                                const long long* progress, int n) {
  if (!progress[GOES_ON]) return;
  turn_block(p, r, sum_of(residuals, gridDim.x) / state[RESIDUAL], n);
}

extern "C" __global__ void decide(const double* residuals, double* state, long long* progress, int parts, int most) {
  decide_block(residuals, state, progress, parts, most);
}

// Wait for all blocks of the grid, which must be on the chip together. `arrived` counts on; `round` is this block's own count.
__device__ void meet(unsigned int* arrived, unsigned int* round) {
  __syncthreads();
  *round += gridDim.x;
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while (*(volatile unsigned int*)arrived < *round) {
    }
    __threadfence();
  }
  __syncthreads();
}

// All iterations. `arrived` is 0 at the start. Every block adds the same parts in the same order, and so comes to the same
// decision.
extern "C" __global__ void whole(double* x, double* r, double* p, double* q, const double* b, double* products, double* residuals,
                                 long long* progress, unsigned int* arrived, int n, float strength, float accuracy, int most) {
  unsigned int round = 0;
  double part = start_block(x, r, p, b, n);
  if (threadIdx.x == 0) residuals[blockIdx.x] = part;
  meet(arrived, &round);
  double residual = sum_of(residuals, gridDim.x), enough = (double)accuracy * accuracy * residual;
  int iterations = 0;
  for (; residual > enough && iterations < most; ++iterations) {
    part = apply_block(q, p, n, strength);
    if (threadIdx.x == 0) products[blockIdx.x] = part;
    meet(arrived, &round);
    part = advance_block(x, r, p, q, residual / sum_of(products, gridDim.x), n);
    if (threadIdx.x == 0) residuals[blockIdx.x] = part;
    meet(arrived, &round);
    double left = sum_of(residuals, gridDim.x);
    turn_block(p, r, left / residual, n);
    residual = left;
    meet(arrived, &round);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) progress[ITERATIONS] = iterations, progress[GOES_ON] = 0;
}
