// y = p(t) with t the mean of an element and of its mirror image in the tile, p a polynomial given by its coefficients.
// The kernels differ in what a block does while a tile is on its way.
#include "aiperf/bulk.cuh"

#define TILE 2048
#define THREADS 256
#define EACH (TILE / THREADS)  // elements a thread
#define RESIDENT 4             // blocks that fit on an SM

extern __shared__ __align__(128) float4 stages[];  // tiles, and behind them the coefficients

// Coefficients go to shared memory once a block; the first barrier of each kernel comes before their use.
__device__ __forceinline__ const float* keep(const float* __restrict__ coefficients, int degree, int count) {
  float* kept = reinterpret_cast<float*>(stages + count * (TILE / 4));
  for (int i = threadIdx.x; i <= degree; i += THREADS) kept[i] = coefficients[i];
  return kept;
}

// Eight polynomials a thread by Horner's rule: eight independent chains of multiply-adds, and a load of four
// coefficients serves 32 of them. A tile that is WHOLE is read and written 16 bytes at a time.
template <bool WHOLE>
__device__ __forceinline__ void polynomials(const float4* tile, const float* coefficients, int degree, float* out,
                                            int length) {
  float t[EACH], y[EACH];
  const float* elements = reinterpret_cast<const float*>(tile);
#pragma unroll
  for (int k = 0; k < EACH; k += 4) {
    const int q = threadIdx.x + k / 4 * THREADS;
    if (WHOLE) {
      const float4 here = tile[q], mirrored = tile[TILE / 4 - 1 - q];
      t[k] = 0.5f * (here.x + mirrored.w), t[k + 1] = 0.5f * (here.y + mirrored.z);
      t[k + 2] = 0.5f * (here.z + mirrored.y), t[k + 3] = 0.5f * (here.w + mirrored.x);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = min(4 * q + j, length - 1);
        t[k + j] = 0.5f * (elements[i] + elements[length - 1 - i]);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) y[k] = coefficients[degree];
  auto step = [&](float coefficient) {
#pragma unroll
    for (int k = 0; k < EACH; ++k) y[k] = fmaf(y[k], t[k], coefficient);
  };
  for (int power = degree - 1; power >= degree / 4 * 4; --power) step(coefficients[power]);
#pragma unroll 4
  for (int group = degree / 4 - 1; group >= 0; --group) {
    const float4 four = reinterpret_cast<const float4*>(coefficients)[group];
    step(four.w), step(four.z), step(four.y), step(four.x);
  }
#pragma unroll
  for (int k = 0; k < EACH; k += 4) {
    const int q = threadIdx.x + k / 4 * THREADS;
    if (WHOLE)
      __stcs(reinterpret_cast<float4*>(out) + q, make_float4(y[k], y[k + 1], y[k + 2], y[k + 3]));
    else
      for (int j = 0; j < 4; ++j)
        if (4 * q + j < length) out[4 * q + j] = y[k + j];
  }
}
__device__ __forceinline__ void compute(const float4* tile, const float* coefficients, int degree, float* out,
                                        int length) {
  if (length == TILE)
    polynomials<true>(tile, coefficients, degree, out, length);
  else
    polynomials<false>(tile, coefficients, degree, out, length);
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

// Through registers: load a tile, store it to shared memory, barrier, compute, barrier. AHEAD: the next tile is loaded
// before this one is computed, and waits in registers. Otherwise a block that waits for its tile computes nothing.
template <bool AHEAD>
__device__ void by_registers(const float* __restrict__ a, const float* __restrict__ coefficients,
                             float* __restrict__ out, long long n, int degree) {
  const float* kept = keep(coefficients, degree, 1);
  float4 part[EACH / 4];
  auto load = [&](long long tile) {
    if (tile * TILE >= n) return;
    const int length = length_of(tile, n);
    const float* from = a + tile * TILE;
#pragma unroll
    for (int k = 0; k < EACH / 4; ++k) {
      const int q = threadIdx.x + k * THREADS;
      part[k] = length == TILE ? reinterpret_cast<const float4*>(from)[q] : four_of(from, q, length);
    }
  };
  if (AHEAD) load(blockIdx.x);
  for (long long tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
    if (!AHEAD) load(tile);
#pragma unroll
    for (int k = 0; k < EACH / 4; ++k) stages[threadIdx.x + k * THREADS] = part[k];
    __syncthreads();
    if (AHEAD) load(tile + gridDim.x);
    compute(stages, kept, degree, out + tile * TILE, length_of(tile, n));
    __syncthreads();
  }
}
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    load_then_compute(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                      long long n, int degree) {
  by_registers<false>(a, coefficients, out, n, degree);
}
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    register_prefetch(const float* __restrict__ a, const float* __restrict__ coefficients, float* __restrict__ out,
                      long long n, int degree) {
  by_registers<true>(a, coefficients, out, n, degree);
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
// One thread asks TMA for a whole tile, and a barrier in shared memory counts the bytes that arrive.
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
