// Sums of rows of floats. A block adds up one part of one row; with several parts a row, a second launch adds up their sums.
#define WARP 32

// The part of row blockIdx.x that is this block's: `part` elements from blockIdx.y * part on, fewer at the row's end.
__device__ __forceinline__ const float* part_of(const float* a, long long columns, long long part, long long& length) {
  const long long start = blockIdx.y * part;
  length = min(part, columns - start);
  return a + blockIdx.x * columns + start;
}

__device__ __forceinline__ float own_sum(const float* from, long long length) {
  float total = 0;
#pragma unroll 8
  for (long long i = threadIdx.x; i < length; i += blockDim.x) total += from[i];
  return total;
}

// Sixteen bytes a load, four of them under way; only where the part starts at a multiple of 16 bytes.
__device__ __forceinline__ float own_sum_wide(const float* from, long long length, int first, int threads) {
  if (reinterpret_cast<unsigned long long>(from) % 16) {
    float total = 0;
    for (long long i = first; i < length; i += threads) total += from[i];
    return total;
  }
  float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 4
  for (long long i = first; i < length / 4; i += threads) {
    const float4 v = __ldcs(reinterpret_cast<const float4*>(from) + i);
    total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
  }
  float rest = 0;
  for (long long i = length / 4 * 4 + first; i < length; i += threads) rest += from[i];
  return (total.x + total.y) + (total.z + total.w) + rest;
}

// Half of the threads add the other half's sums, again and again; the block meets at a barrier each time.
extern "C" __global__ void __launch_bounds__(256)
    tree(const float* __restrict__ a, float* __restrict__ sums, long long columns, long long part) {
  __shared__ float totals[256];
  long long length;
  const float* from = part_of(a, columns, part, length);
  totals[threadIdx.x] = own_sum(from, length);
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) totals[threadIdx.x] += totals[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x * (long long)gridDim.y + blockIdx.y] = totals[0];
}

// The lanes of a warp read each other's registers: five steps without memory and without a barrier.
__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
  return total;
}

// Of a block's eight warps each leaves one number in shared memory, and the first warp adds those: one barrier.
__device__ __forceinline__ void block_sum(float total, float* to) {
  __shared__ float totals[8];
  total = warp_sum(total);
  if (threadIdx.x % WARP == 0) totals[threadIdx.x / WARP] = total;
  __syncthreads();
  if (threadIdx.x < WARP) {
    total = warp_sum(threadIdx.x < blockDim.x / WARP ? totals[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) *to = total;
  }
}

extern "C" __global__ void __launch_bounds__(256)
    shuffle(const float* __restrict__ a, float* __restrict__ sums, long long columns, long long part) {
  long long length;
  const float* from = part_of(a, columns, part, length);
  block_sum(own_sum(from, length), sums + blockIdx.x * (long long)gridDim.y + blockIdx.y);
}

extern "C" __global__ void __launch_bounds__(256)
    shuffle_wide(const float* __restrict__ a, float* __restrict__ sums, long long columns, long long part) {
  long long length;
  const float* from = part_of(a, columns, part, length);
  block_sum(own_sum_wide(from, length, threadIdx.x, blockDim.x),
            sums + blockIdx.x * (long long)gridDim.y + blockIdx.y);
}

// A warp has a part of its own, and the block is never waited for. Blocks of eight warps take eight parts.
__device__ __forceinline__ bool own_part(const float* a, long long columns, long long part, long long rows,
                                         const float*& from, long long& length, long long& number) {
  const long long parts = (columns + part - 1) / part;
  number = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / WARP;
  if (number >= rows * parts) return false;
  const long long row = number / parts, start = number % parts * part;
  from = a + row * columns + start;
  length = min(part, columns - start);
  return true;
}

extern "C" __global__ void __launch_bounds__(256) warp_per_row(const float* __restrict__ a, float* __restrict__ sums,
                                                               long long columns, long long part, long long rows) {
  const float* from;
  long long length, number;
  if (!own_part(a, columns, part, rows, from, length, number)) return;
  const float total = warp_sum(own_sum_wide(from, length, threadIdx.x % WARP, WARP));
  if (threadIdx.x % WARP == 0) sums[number] = total;
}

// The same with one instruction in place of five shuffles: redux.sync adds over a warp, but only integers. A lane's sum is
// made one by `scale`, which is so chosen that 32 of them do not overflow: elements are known to lie between -1 and 1.
extern "C" __global__ void __launch_bounds__(256)
    fixed_point(const float* __restrict__ a, float* __restrict__ sums, long long columns, long long part,
                long long rows, float scale) {
  const float* from;
  long long length, number;
  if (!own_part(a, columns, part, rows, from, length, number)) return;
  const int lane_sum = __float2int_rn(scale * own_sum_wide(from, length, threadIdx.x % WARP, WARP));
  const int total = __reduce_add_sync(~0u, lane_sum);
  if (threadIdx.x % WARP == 0) sums[number] = total / scale;
}
