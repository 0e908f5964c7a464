// The softmax of long rows of bfloat16. A row is cut into gridDim.x slices, one a block; what differs is how the
// slices' maxima and sums meet, and whether a slice is read again from memory after that.
#include "instructions.cuh"

#define WARP 32
#define THREADS 512
#define WARPS (THREADS / WARP)
#define MOST_BLOCKS 16  // of a cluster
#define MINUS_INFINITY __uint_as_float(0xff800000)

typedef unsigned short Half;  // the bits of a bfloat16

// Of some elements: the largest, and the sum of exp(element - largest). Without elements: minus infinity, and 0.
struct Part {
  float largest, sum;
};
__device__ __forceinline__ Part merged(Part a, Part b) {
  const float largest = max(a.largest, b.largest);
  if (largest == MINUS_INFINITY) return {MINUS_INFINITY, 0};
  return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}
// Of the block, in all threads.
__device__ __forceinline__ Part of_block(Part part) {
  __shared__ Part parts[WARPS];
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2)
    part = merged(part, {__shfl_xor_sync(~0u, part.largest, offset), __shfl_xor_sync(~0u, part.sum, offset)});
  if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = part;
  __syncthreads();
  part = parts[0];
  for (int w = 1; w < WARPS; ++w) part = merged(part, parts[w]);
  return part;
}

// Eight elements, which are 16 bytes.
struct Eight {
  uint4 all;
  __device__ __forceinline__ float operator[](int i) const {
    const unsigned int word = i < 2 ? all.x : i < 4 ? all.y : i < 6 ? all.z : all.w;
    return from_bf16((unsigned short)(word >> 16 * (i % 2)));
  }
};
__device__ __forceinline__ Part of_eight(Part part, Eight v) {
  float largest = part.largest;
#pragma unroll
  for (int i = 0; i < 8; ++i) largest = max(largest, v[i]);
  if (largest == MINUS_INFINITY) return part;
  float sum = part.sum * __expf(part.largest - largest);
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += __expf(v[i] - largest);
  return {largest, sum};
}
__device__ __forceinline__ uint4 answer(Eight v, Part whole) {
  const float factor = 1.0f / whole.sum;
  float y[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) y[i] = __expf(v[i] - whole.largest) * factor;
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
  Part whole{MINUS_INFINITY, 0};
  for (int i = 0; i < gridDim.x; ++i) {
    const float2 part = parts[blockIdx.y * gridDim.x + i];
    whole = merged(whole, {part.x, part.y});
  }
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
  Part whole{largest[0], sums[0]};
  for (int i = 1; i < gridDim.x; ++i) whole = merged(whole, {largest[i], sums[i]});
  for (int i = threadIdx.x; i < slice.count; i += THREADS) to[i] = answer({kept[i]}, whole);
}
#endif
