// y = p(t) with t the mean of an element and its mirror image in the tile, p a polynomial given by its coefficients; what
// differs is what a block does while a tile is on its way.
#include "aiperf/bulk.cuh"

#define TILE 4096
#define THREADS 256
#define EACH (TILE / THREADS)  // elements a thread

// Sixteen polynomials a thread at a time, by Horner's rule: a coefficient that is fetched serves sixteen multiply-adds.
__device__ __forceinline__ void compute(const float* tile, const float* __restrict__ coefficients, int degree,
                                        float* out, int length) {
  float t[EACH], y[EACH];
  const float leading = coefficients[degree];
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int i = threadIdx.x + k * THREADS;
    t[k] = i < length ? 0.5f * (tile[i] + tile[length - 1 - i]) : 0.0f;
    y[k] = leading;
  }
#pragma unroll 4
  for (int power = degree - 1; power >= 0; --power) {
    const float coefficient = coefficients[power];
#pragma unroll
    for (int k = 0; k < EACH; ++k) y[k] = fmaf(y[k], t[k], coefficient);
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int i = threadIdx.x + k * THREADS;
    if (i < length) __stcs(out + i, y[k]);
  }
}

__device__ __forceinline__ int length_of(long long tile, long long n) { return (int)min((long long)TILE, n - tile * TILE); }

// Elements 4 q to 4 q + 3 of a tile, zeros beyond its length.
__device__ __forceinline__ float4 four_of(const float* from, int q, int length) {
  if (4 * q + 3 < length) return reinterpret_cast<const float4*>(from)[q];
  float4 v = make_float4(0, 0, 0, 0);
  if (4 * q < length) v.x = from[4 * q];
  if (4 * q + 1 < length) v.y = from[4 * q + 1];
  if (4 * q + 2 < length) v.z = from[4 * q + 2];
  return v;
}

// Load, barrier, compute, barrier: while the block waits for a tile it computes nothing, and the other way round. Only other
// blocks on the same multiprocessor fill the gaps.
extern "C" __global__ void __launch_bounds__(THREADS)
    load_then_compute(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                      long long n, int degree) {
  extern __shared__ float4 stages[];
  for (long long tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
    const int length = length_of(tile, n);
#pragma unroll
    for (int k = 0; k < EACH / 4; ++k) {
      const int q = threadIdx.x + k * THREADS;
      stages[q] = four_of(a + tile * TILE, q, length);
    }
    __syncthreads();
    compute(reinterpret_cast<const float*>(stages), coefficients, degree, out + tile * TILE, length);
    __syncthreads();
  }
}

// The next tile is loaded into registers before this one is computed, and moved to shared memory afterwards.
extern "C" __global__ void __launch_bounds__(THREADS)
    register_prefetch(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                      long long n, int degree) {
  extern __shared__ float4 stages[];
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
    compute(reinterpret_cast<const float*>(stages), coefficients, degree, out + tile * TILE, length_of(tile, n));
    __syncthreads();
  }
}

// cp.async puts tiles into shared memory without passing through registers; STAGES - 1 of them are on their way.
template <int STAGES>
__device__ void by_cp_async(const float* __restrict__ a, const float* __restrict__ coefficients,
                            float* __restrict__ out, long long n, int degree) {
  extern __shared__ float4 stages[];
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
    compute(reinterpret_cast<const float*>(stages + stage * (TILE / 4)), coefficients, degree, out + tile * TILE,
            length_of(tile, n));
    stage = (stage + 1) % STAGES;
  }
}
extern "C" __global__ void __launch_bounds__(THREADS)
    two_stages(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
               long long n, int degree) {
  by_cp_async<2>(a, coefficients, out, n, degree);
}
extern "C" __global__ void __launch_bounds__(THREADS)
    four_stages(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                long long n, int degree) {
  by_cp_async<4>(a, coefficients, out, n, degree);
}

#if __CUDA_ARCH__ >= 900
// One thread asks the copy engine for a whole tile, and a barrier in shared memory counts the bytes that arrive.
#define STAGES 4

extern "C" __global__ void __launch_bounds__(THREADS)
    bulk_stages(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                long long n, int degree) {
  extern __shared__ __align__(128) float4 stages[];
  __shared__ __align__(8) Barrier full[STAGES];
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
  __syncthreads();  // nobody waits for a barrier that is not there yet
  int stage = 0;
  unsigned int parity = 0;
  for (long long tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
    const int length = length_of(tile, n), odd = length % 4;
    float* here = reinterpret_cast<float*>(stages + stage * (TILE / 4));
    barrier_wait(full + stage, parity);
    if (threadIdx.x < odd) here[length - odd + threadIdx.x] = a[tile * TILE + length - odd + threadIdx.x];
    __syncthreads();  // all have computed the tile before, whose place is free
    load(tile + (STAGES - 1) * (long long)gridDim.x, (stage + STAGES - 1) % STAGES);
    compute(here, coefficients, degree, out + tile * TILE, length);
    stage = (stage + 1) % STAGES;
    parity ^= stage == 0;
  }
}
#endif
