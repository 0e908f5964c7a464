// The softmax of long rows of bfloat16. A row is cut into gridDim.x slices, one a block; the kernels differ in how the
// slices' maxima and sums meet, and in whether a slice is read again from memory after that.
#include "instructions.cuh"

#define WARP 32
#define THREADS 512
#define WARPS (THREADS / WARP)
#define MOST_BLOCKS 16  // of a cluster
#define MINUS_INFINITY __uint_as_float(0xff800000)
#define LOG2E 1.44269504f

typedef unsigned short Half;  // the bits of a bfloat16

// Of some elements: the largest, and the sum of exp(element - largest). Without elements: minus infinity, and 0.
struct Part {
  float largest, sum;
};
// What exponents are lowered by, so that the largest element has the power 1. Finite, also without elements.
__device__ __forceinline__ float shift_of(float largest) { return largest == MINUS_INFINITY ? 0 : -LOG2E * largest; }
// exp(x + shift / LOG2E).
__device__ __forceinline__ float power(float x, float shift) { return power_of_2(fmaf(x, LOG2E, shift)); }
// Of all lanes, in each of them: one exponential a lane.
__device__ __forceinline__ Part of_warp(Part part) {
  float largest = part.largest;
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, offset));
  float sum = part.sum * power(part.largest, shift_of(largest));
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  return {largest, sum};
}
// Of the block, in all threads.
__device__ __forceinline__ Part of_block(Part part) {
  __shared__ Part parts[WARPS];
  const int lane = threadIdx.x % WARP;
  part = of_warp(part);
  if (lane == 0) parts[threadIdx.x / WARP] = part;
  __syncthreads();
  return of_warp(lane < WARPS ? parts[lane] : Part{MINUS_INFINITY, 0});
}

// Eight elements, which are 16 bytes.
struct Eight {
  uint4 all;
  __device__ __forceinline__ float operator[](int i) const {
    const unsigned int word = i < 2 ? all.x : i < 4 ? all.y : i < 6 ? all.z : all.w;
    return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
  }
};
__device__ __forceinline__ Part of_eight(Part part, Eight v) {
  float largest = part.largest;
#pragma unroll
  for (int i = 0; i < 8; ++i) largest = max(largest, v[i]);
  const float shift = shift_of(largest);
  float sum = part.sum * power(part.largest, shift);
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += power(v[i], shift);
  return {largest, sum};
}
__device__ __forceinline__ uint4 answer(Eight v, Part whole) {
  const float factor = 1.0f / whole.sum, shift = shift_of(whole.largest);
  float y[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) y[i] = power(v[i], shift) * factor;
  return make_uint4(pack_bf16(y[0], y[1]), pack_bf16(y[2], y[3]), pack_bf16(y[4], y[5]), pack_bf16(y[6], y[7]));
}

// A block's slice of its row, in eights. Rows have a multiple of eight elements, so that they start at multiples of 16
// bytes. The last slices may be shorter than the others, or empty.
struct Slice {
  int first, count;
  __device__ __forceinline__ explicit Slice(int columns) {
    const int all = columns / 8, each = (all + gridDim.x - 1) / gridDim.x;
    first = min(all, (int)blockIdx.x * each);
    count = min(all, first + each) - first;
  }
  template <typename T>
  __device__ __forceinline__ T* of(T* rows, int columns) const {
    return rows + (blockIdx.y * (long long)columns / 8 + first);
  }
};

// Two kernels. The first leaves a part for each slice; the second reads the parts of its row, and the slice again.
extern "C" __global__ void __launch_bounds__(THREADS)
    leave_parts(const uint4* __restrict__ x, float2* __restrict__ parts, int columns) {
  const Slice slice(columns);
  const uint4* from = slice.of(x, columns);
  Part part{MINUS_INFINITY, 0};
#pragma unroll 4
  for (int i = threadIdx.x; i < slice.count; i += THREADS) part = of_eight(part, {from[i]});
  part = of_block(part);
  if (threadIdx.x == 0) parts[blockIdx.y * gridDim.x + blockIdx.x] = make_float2(part.largest, part.sum);
}
extern "C" __global__ void __launch_bounds__(THREADS)
    read_again(const uint4* __restrict__ x, const float2* __restrict__ parts, uint4* __restrict__ out, int columns) {
  const Slice slice(columns);
  const uint4* from = slice.of(x, columns);
  uint4* to = slice.of(out, columns);
  const int lane = threadIdx.x % WARP;
  const float2 part = lane < gridDim.x ? parts[blockIdx.y * gridDim.x + lane] : make_float2(MINUS_INFINITY, 0);
  const Part whole = of_warp({part.x, part.y});
#pragma unroll 4
  for (int i = threadIdx.x; i < slice.count; i += THREADS) to[i] = answer({from[i]}, whole);
}

#if __CUDA_ARCH__ >= 900
// One kernel. The blocks of a row are a cluster: each keeps its slice in shared memory, and writes its part to the
// shared memory of all the others. A cluster is scheduled as a whole, so that its barriers end. Every thread takes part
// in both.
extern __shared__ __align__(128) uint4 kept[];

extern "C" __global__ void __launch_bounds__(THREADS)
    in_cluster(const uint4* __restrict__ x, uint4* __restrict__ out, int columns) {
  __shared__ float largest[MOST_BLOCKS], sums[MOST_BLOCKS];
  cluster_arrive();  // waited for below: a block must have begun before others write to its shared memory
  const Slice slice(columns);
  const uint4* from = slice.of(x, columns);
  uint4* to = slice.of(out, columns);
  // A thread reads what it has copied itself, so that its own wait is enough.
  for (int i = threadIdx.x; i < slice.count; i += THREADS) async_copy16(kept + i, from + i);
  async_commit();
  async_wait<0>();
  Part part{MINUS_INFINITY, 0};
  for (int i = threadIdx.x; i < slice.count; i += THREADS) part = of_eight(part, {kept[i]});
  part = of_block(part);
  cluster_wait();
  if (threadIdx.x < gridDim.x) {
    store_remote(largest + blockIdx.x, threadIdx.x, part.largest);
    store_remote(sums + blockIdx.x, threadIdx.x, part.sum);
  }
  cluster_arrive();
  cluster_wait();  // all parts are here, and nobody writes to a block that has ended
  const int lane = threadIdx.x % WARP;
  const Part whole = of_warp(lane < gridDim.x ? Part{largest[lane], sums[lane]} : Part{MINUS_INFINITY, 0});
  for (int i = threadIdx.x; i < slice.count; i += THREADS) to[i] = answer({kept[i]}, whole);
}
#endif
