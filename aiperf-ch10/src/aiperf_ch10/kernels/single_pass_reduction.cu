// The sums of long rows of floats, each by gridDim.x blocks; blockIdx.y is the row. All kernels add the same shares in
// the same way; they differ in how the blocks' sums meet.
#include "instructions.cuh"

#define WARP 32
#define THREADS 256
#define RESIDENT 4  // blocks a multiprocessor, which together have 64 KiB under way
#define CLUSTER 8
#define AT_ONCE 4  // loads of a thread before the first sum

__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
  return total;
}
// The sum over a block, in thread 0. The first barrier lets the block use it again.
__device__ __forceinline__ float block_sum(float total) {
  __shared__ float totals[THREADS / WARP];
  total = warp_sum(total);
  __syncthreads();
  if (threadIdx.x % WARP == 0) totals[threadIdx.x / WARP] = total;
  __syncthreads();
  return threadIdx.x < WARP ? warp_sum(threadIdx.x < THREADS / WARP ? totals[threadIdx.x] : 0.0f) : 0.0f;
}
__device__ __forceinline__ void add_to(float4& total, float4 v) {
  total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
}
// The sum of this block's share of its row: every gridDim.x-th piece of 4 x 256 floats.
__device__ __forceinline__ float share(const float* a, long long columns) {
  const float* row = a + blockIdx.y * columns;
  const long long stride = gridDim.x * (long long)THREADS;
  long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  float4 total = make_float4(0, 0, 0, 0);
  if (columns % 4 == 0) {
    const float4* fours = reinterpret_cast<const float4*>(row);
    for (; i + (AT_ONCE - 1) * stride < columns / 4; i += AT_ONCE * stride) {
      float4 v[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) v[k] = __ldcs(fours + i + k * stride);
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) add_to(total, v[k]);
    }
    for (; i < columns / 4; i += stride) add_to(total, __ldcs(fours + i));
  } else {  // rows do not start at multiples of 16 bytes
#pragma unroll 4
    for (; i < columns; i += stride) total.x += __ldcs(row + i);
  }
  return block_sum((total.x + total.y) + (total.z + total.w));
}
// The sum of what blocks have left in memory, past L1, by one block.
__device__ __forceinline__ float sum_of(const float* partials, int count) {
  float total = 0;
  for (int i = threadIdx.x; i < count; i += THREADS) total += __ldcg(partials + i);
  return block_sum(total);
}

// Two kernels: the end of the first is the barrier between all blocks.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    leave_partials(const float* __restrict__ a, float* __restrict__ partials, long long columns) {
  const float total = share(a, columns);
  if (threadIdx.x == 0) partials[blockIdx.y * gridDim.x + blockIdx.x] = total;
}
extern "C" __global__ void __launch_bounds__(THREADS)
    sum_partials(const float* __restrict__ partials, float* __restrict__ out, int count) {
  const float total = sum_of(partials + blockIdx.x * count, count);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

// One kernel, and before it one that sets the result to zero.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    atomic(const float* __restrict__ a, float* out, long long columns) {
  const float total = share(a, columns);
  if (threadIdx.x == 0) atomicAdd(out + blockIdx.y, total);
}

// Thread 0 leaves the sum of its block (or cluster), number `mine` of `count` in the row, and counts it. The last of
// them adds up all: they are visible to it, because each was written before its fence and counted after. The row's
// counter wraps to zero by itself, for the next launch. No block waits for another.
__device__ __forceinline__ void last_adds_up(float total, float* partials, float* out, unsigned int* counters, int mine,
                                             int count) {
  __shared__ bool last;
  partials += blockIdx.y * count;
  if (threadIdx.x == 0) {
    partials[mine] = total;
    __threadfence();
    last = atomicInc(counters + blockIdx.y, count - 1) == count - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  total = sum_of(partials, count);
  if (threadIdx.x == 0) out[blockIdx.y] = total;
}
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    last_block(const float* __restrict__ a, float* partials, float* out, unsigned int* counters, long long columns) {
  last_adds_up(share(a, columns), partials, out, counters, blockIdx.x, gridDim.x);
}

// A barrier over the grid, as cooperative groups make it. The wait ends because all blocks are on the chip at once: the
// grid has no more than fit. Arrivals are counted on through all launches in 64 bits; a launch's own end at the next
// multiple of the number of blocks, since each block arrives once a launch.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    grid_barrier(const float* __restrict__ a, float* partials, float* out, unsigned long long* arrivals,
                 long long columns) {
  const float total = share(a, columns);
  if (threadIdx.x == 0) {
    partials[blockIdx.y * gridDim.x + blockIdx.x] = total;
    __threadfence();
    const unsigned long long all = gridDim.x * gridDim.y, until = (atomicAdd(arrivals, 1ull) / all + 1) * all;
    while (*(volatile unsigned long long*)arrivals < until) {
    }
    __threadfence();
  }
  __syncthreads();
  if (blockIdx.x != 0) return;
  const float all = sum_of(partials + blockIdx.y * gridDim.x, gridDim.x);
  if (threadIdx.x == 0) out[blockIdx.y] = all;
}

#if __CUDA_ARCH__ >= 900
// Eight blocks meet in the shared memory of the first of them, which leaves one sum for all: an eighth of the counting.
// A cluster is scheduled as a whole, so that its barriers end.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    cluster(const float* __restrict__ a, float* partials, float* out, unsigned int* counters, long long columns) {
  __shared__ float sums[CLUSTER];
  cluster_arrive();  // waited for below: a block must have begun before others write to its shared memory
  const float total = share(a, columns);
  const unsigned int rank = blockIdx.x % CLUSTER;
  cluster_wait();
  if (threadIdx.x == 0) store_remote(sums + rank, 0, total);
  cluster_arrive();
  cluster_wait();
  if (rank != 0) return;
  float all = 0;
#pragma unroll
  for (int i = 0; i < CLUSTER; ++i) all += sums[i];
  last_adds_up(all, partials, out, counters, blockIdx.x / CLUSTER, gridDim.x / CLUSTER);
}
#endif
