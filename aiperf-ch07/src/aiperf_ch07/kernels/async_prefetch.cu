// y = p(t) with t the mean of an element and of its mirror image in the tile, p a polynomial given by its coefficients.
// The kernels differ in what a block does while a tile is on its way.
#include "aiperf/bulk.cuh"

#define TILE 4096
#define THREADS 256
#define EACH (TILE / THREADS)  // elements a thread
#define RESIDENT 4             // blocks a multiprocessor, for which 64 registers a thread are left

extern __shared__ __align__(128) float4 stages[];  // tiles, and behind them the coefficients

// Coefficients go to shared memory once a block; the first barrier of each kernel comes before their use.
__device__ __forceinline__ const float* keep(const float* __restrict__ coefficients, int degree, int count) {
  float* kept = reinterpret_cast<float*>(stages + count * (TILE / 4));
  for (int i = threadIdx.x; i <= degree; i += THREADS) kept[i] = coefficients[i];
  return kept;
}

// Sixteen polynomials a thread by Horner's rule: sixteen independent chains of multiply-adds, and a load of four
// coefficients serves 64 of them.
__device__ __forceinline__ void compute(const float4* tile, const float* coefficients, int degree, float* out,
                                        int length) {
  float t[EACH], y[EACH];
  const bool whole = length == TILE;
  const float* elements = reinterpret_cast<const float*>(tile);
#pragma unroll
  for (int k = 0; k < EACH; k += 4) {
    const int q = threadIdx.x + k / 4 * THREADS;
    if (whole) {
      const float4 here = tile[q], mirrored = tile[TILE / 4 - 1 - q];
      t[k] = 0.5f * (here.x + mirrored.w), t[k + 1] = 0.5f * (here.y + mirrored.z);
      t[k + 2] = 0.5f * (here.z + mirrored.y), t[k + 3] = 0.5f * (here.w + mirrored.x);
    } else {
      for (int j = 0; j < 4; ++j)
        t[k + j] = 4 * q + j < length ? 0.5f * (elements[4 * q + j] + elements[length - 1 - 4 * q - j]) : 0.0f;
    }
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) y[k] = coefficients[degree];
  auto step = [&](float coefficient) {
#pragma unroll
    for (int k = 0; k < EACH; ++k) y[k] = fmaf(y[k], t[k], coefficient);
  };
  for (int power = degree - 1; power >= degree / 4 * 4; --power) step(coefficients[power]);
#pragma unroll 2
  for (int group = degree / 4 - 1; group >= 0; --group) {
    const float4 four = reinterpret_cast<const float4*>(coefficients)[group];
    step(four.w), step(four.z), step(four.y), step(four.x);
  }
#pragma unroll
  for (int k = 0; k < EACH; k += 4) {
    const int q = threadIdx.x + k / 4 * THREADS;
    if (whole)
      __stcs(reinterpret_cast<float4*>(out) + q, make_float4(y[k], y[k + 1], y[k + 2], y[k + 3]));
    else
      for (int j = 0; j < 4; ++j)
        if (4 * q + j < length) out[4 * q + j] = y[k + j];
  }
}

__device__ __forceinline__ int length_of(long long tile, long long n) {
  return (int)min((long long)TILE, n - tile * TILE);
}

// Elements 4 q to 4 q + 3 of a tile, zeros beyond its length.
__device__ __forceinline__ float4 four_of(const float* from, int q, int length) {
  if (4 * q + 3 < length) return reinterpret_cast<const float4*>(from)[q];
  float4 v = make_float4(0, 0, 0, 0);
  if (4 * q < length) v.x = from[4 * q];
  if (4 * q + 1 < length) v.y = from[4 * q + 1];
  if (4 * q + 2 < length) v.z = from[4 * q + 2];
  return v;
}

// Load, barrier, compute, barrier: a block that waits for its tile computes nothing. Only the other blocks of the
// multiprocessor fill the gaps.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    load_then_compute(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                      long long n, int degree) {
  const float* kept = keep(coefficients, degree, 1);
  for (long long tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
    const int length = length_of(tile, n);
#pragma unroll
    for (int k = 0; k < EACH / 4; ++k) {
      const int q = threadIdx.x + k * THREADS;
      stages[q] = four_of(a + tile * TILE, q, length);
    }
    __syncthreads();
    compute(stages, kept, degree, out + tile * TILE, length);
    __syncthreads();
  }
}

// The next tile is loaded into registers before this one is computed, and moved to shared memory afterwards.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    register_prefetch(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                      long long n, int degree) {
  const float* kept = keep(coefficients, degree, 1);
  float4 next[EACH / 4];
  auto load = [&](long long tile) {
#pragma unroll
    for (int k = 0; k < EACH / 4; ++k)
      if (tile * TILE < n) next[k] = four_of(a + tile * TILE, threadIdx.x + k * THREADS, length_of(tile, n));
  };
  load(blockIdx.x);
  for (long long tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
#pragma unroll
    for (int k = 0; k < EACH / 4; ++k) stages[threadIdx.x + k * THREADS] = next[k];
    __syncthreads();
    load(tile + gridDim.x);
    compute(stages, kept, degree, out + tile * TILE, length_of(tile, n));
    __syncthreads();
  }
}

// cp.async writes tiles to shared memory without registers; STAGES - 1 of them are on their way.
template <int STAGES>
__device__ void by_cp_async(const float* __restrict__ a, const float* __restrict__ coefficients,
                            float* __restrict__ out, long long n, int degree) {
  const float* kept = keep(coefficients, degree, STAGES);
  auto load = [&](long long tile, int stage) {
    if (tile * TILE < n) {
      const int bytes = 4 * length_of(tile, n);
#pragma unroll
      for (int k = 0; k < EACH / 4; ++k) {
        const int q = threadIdx.x + k * THREADS, here = max(0, min(16, bytes - 16 * q));
        async_copy16(stages + stage * (TILE / 4) + q, a + (here ? tile * TILE + 4 * q : 0), here);
      }
    }
    async_commit();  // of nothing too, so that the number of groups tells the tile
  };
  for (int s = 0; s < STAGES - 1; ++s) load(blockIdx.x + s * (long long)gridDim.x, s);
  int stage = 0;
  for (long long tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
    async_wait<STAGES - 2>();
    __syncthreads();  // all threads' copies of this tile have arrived, and all have computed the one before
    load(tile + (STAGES - 1) * (long long)gridDim.x, (stage + STAGES - 1) % STAGES);
    compute(stages + stage * (TILE / 4), kept, degree, out + tile * TILE, length_of(tile, n));
    stage = (stage + 1) % STAGES;
  }
}
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    two_stages(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
               long long n, int degree) {
  by_cp_async<2>(a, coefficients, out, n, degree);
}
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    three_stages(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                 long long n, int degree) {
  by_cp_async<3>(a, coefficients, out, n, degree);
}

#if __CUDA_ARCH__ >= 900
// One thread asks the copy engine for a whole tile, and a barrier in shared memory counts the bytes that arrive.
#define STAGES 3

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    bulk_stages(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                long long n, int degree) {
  __shared__ __align__(8) Barrier full[STAGES];
  const float* kept = keep(coefficients, degree, STAGES);
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
    barrier_init_fence();
  }
  auto load = [&](long long tile, int stage) {
    if (threadIdx.x != 0 || tile * TILE >= n) return;
    const unsigned int bytes = length_of(tile, n) / 4 * 16;
    barrier_expect(full + stage, bytes);
    if (bytes) bulk_load(stages + stage * (TILE / 4), a + tile * TILE, bytes, full + stage);
  };
  for (int s = 0; s < STAGES - 1; ++s) load(blockIdx.x + s * (long long)gridDim.x, s);
  __syncthreads();  // no thread waits for a barrier before it is initialised
  int stage = 0;
  unsigned int parity = 0;
  for (long long tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
    const int length = length_of(tile, n), odd = length % 4;
    float* here = reinterpret_cast<float*>(stages + stage * (TILE / 4));
    barrier_wait(full + stage, parity);
    if (threadIdx.x < odd) here[length - odd + threadIdx.x] = a[tile * TILE + length - odd + threadIdx.x];
    __syncthreads();  // all have computed the tile before, whose place is free
    load(tile + (STAGES - 1) * (long long)gridDim.x, (stage + STAGES - 1) % STAGES);
    compute(stages + stage * (TILE / 4), kept, degree, out + tile * TILE, length);
    stage = (stage + 1) % STAGES;
    parity ^= stage == 0;
  }
}
#endif
