// Sums of rows of floats. Every load has the same hint (read once), so that kernels differ by one mechanism each.
#define WARP 32
#define THREADS 256

// The sum of every `threads`-th element from `first` on.
__device__ __forceinline__ float own_sum(const float* row, int columns, int first, int threads) {
  float total = 0;
#pragma unroll 8
  for (int i = first; i < columns; i += threads) total += __ldcs(row + i);
  return total;
}

// The same share of a row with 16 bytes a load, IN_FLIGHT of them before the first addition. Rows whose start is no
// multiple of 16 bytes are read by words.
template <int IN_FLIGHT>
__device__ __forceinline__ float own_sum_wide(const float* row, int columns, int first, int threads) {
  if (reinterpret_cast<unsigned long long>(row) % 16) return own_sum(row, columns, first, threads);
  float4 total = make_float4(0, 0, 0, 0);
#pragma unroll IN_FLIGHT
  for (int i = first; i < columns / 4; i += threads) {
    const float4 v = __ldcs(reinterpret_cast<const float4*>(row) + i);
    total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
  }
  const float rest = own_sum(row + columns / 4 * 4, columns % 4, first, threads);
  return (total.x + total.y) + (total.z + total.w) + rest;
}

// Half of the threads add the sums of the other half, eight times; each time the block meets at a barrier.
extern "C" __global__ void __launch_bounds__(THREADS)
    tree(const float* __restrict__ a, float* __restrict__ out, int columns) {
  __shared__ float totals[THREADS];
  totals[threadIdx.x] = own_sum(a + blockIdx.x * (long long)columns, columns, threadIdx.x, THREADS);
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) totals[threadIdx.x] += totals[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = totals[0];
}

// Lanes read registers of each other: five steps without memory and without a barrier. Lane 0 has the sum.
__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
  return total;
}

// Each of the eight warps leaves one number in shared memory, and the first warp adds those: one barrier.
__device__ __forceinline__ void block_sum(float total, float* to) {
  __shared__ float totals[THREADS / WARP];
  total = warp_sum(total);
  if (threadIdx.x % WARP == 0) totals[threadIdx.x / WARP] = total;
  __syncthreads();
  if (threadIdx.x < WARP) {
    total = warp_sum(threadIdx.x < THREADS / WARP ? totals[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) *to = total;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    shuffle(const float* __restrict__ a, float* __restrict__ out, int columns) {
  block_sum(own_sum(a + blockIdx.x * (long long)columns, columns, threadIdx.x, THREADS), out + blockIdx.x);
}

// LANES lanes have a row to themselves, and the block never meets. WIDE: loads of 16 bytes.
template <int LANES, bool WIDE>
__device__ __forceinline__ void lanes_sum(const float* a, float* out, long long rows, int columns) {
  const long long row = (blockIdx.x * (long long)THREADS + threadIdx.x) / LANES;
  const int lane = threadIdx.x % LANES;
  const float* from = a + min(row, rows - 1) * columns;
  float total = WIDE ? own_sum_wide<4>(from, columns, lane, LANES) : own_sum(from, columns, lane, LANES);
#pragma unroll
  for (int offset = LANES / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset, LANES);
  if (lane == 0 && row < rows) out[row] = total;
}

// The launch bounds keep as many warps on an SM as the kernels above have.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    warp_per_row(const float* __restrict__ a, float* __restrict__ out, long long rows, int columns) {
  lanes_sum<WARP, false>(a, out, rows, columns);
}
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    wide(const float* __restrict__ a, float* __restrict__ out, long long rows, int columns) {
  lanes_sum<WARP, true>(a, out, rows, columns);
}
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    half_warp(const float* __restrict__ a, float* __restrict__ out, long long rows, int columns) {
  lanes_sum<WARP / 2, true>(a, out, rows, columns);
}
