// out[i] = table[index[i]] for rows of `pieces` T: 16 bytes where rows consist of them, else the bits of a bfloat16 value.
#include "aiperf/bulk.cuh"

#define WARP 32
#define ROWS 4    // of a warp in four_rows and in_order
#define STAGES 4  // groups of rows in flight in a block of bulk_rows

template <typename T>
__device__ __forceinline__ void copy_row(const T* from, T* to, int pieces, int lane, int lanes) {
  for (int c = lane; c < pieces; c += lanes) to[c] = from[c];
}

// The lanes of a warp are in 32 rows at once: each access touches 32 sectors for 512 bytes.
template <typename T>
__global__ void thread_per_row(const T* table, const int* __restrict__ index, T* out, long long rows, int pieces) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < rows) copy_row(table + index[i] * (long long)pieces, out + i * pieces, pieces, 0, 1);
}

// The lanes of a warp take neighbouring pieces of one row: 512 bytes in one access.
template <typename T>
__global__ void warp_per_row(const T* table, const int* __restrict__ index, T* out, long long rows, int pieces) {
  const long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / WARP;
  if (i < rows) copy_row(table + index[i] * (long long)pieces, out + i * pieces, pieces, threadIdx.x % WARP, WARP);
}

// A warp reads four indices, then a piece of each of the four rows, before it stores anything. A last warp copies the
// last row several times. With an order, row i of the draw goes to row order[i] of the output.
template <typename T, bool ORDERED>
__device__ __forceinline__ void copy_four_rows(const T* table, const int* __restrict__ index,
                                               const long long* __restrict__ order, T* out, long long rows,
                                               int pieces) {
  const long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / WARP * ROWS;
  if (first >= rows) return;
  const T* from[ROWS];
  T* to[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long i = min(first + r, rows - 1);
    from[r] = table + index[i] * (long long)pieces;
    to[r] = out + (ORDERED ? order[i] : i) * pieces;
  }
#pragma unroll 1
  for (int c = threadIdx.x % WARP; c < pieces; c += WARP) {
    T piece[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) piece[r] = from[r][c];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) to[r][c] = piece[r];
  }
}
template <typename T>
__global__ void four_rows(const T* table, const int* index, T* out, long long rows, int pieces) {
  copy_four_rows<T, false>(table, index, nullptr, out, rows, pieces);
}
template <typename T>
__global__ void in_order(const T* table, const int* index, const long long* order, T* out, long long rows,
                         int pieces) {
  copy_four_rows<T, true>(table, index, order, out, rows, pieces);
}

#if __CUDA_ARCH__ >= 900
// A block is one warp. Lane l asks for row l of a group by a bulk copy, and one bulk copy stores the whole group, since
// the rows of the output are neighbours.
extern "C" __global__ void bulk_rows(const void* table, const int* __restrict__ index, void* out, long long rows,
                                     int width, int group) {
  const char* from = static_cast<const char*>(table);
  char* to = static_cast<char*>(out);
  extern __shared__ __align__(128) char stages[];
  __shared__ __align__(8) Barrier full[STAGES];
  const long long row_bytes = 2LL * width, groups = (rows + group - 1) / group;
  const long long mine = (groups - 1 - blockIdx.x) / gridDim.x + 1;
  const int lane = threadIdx.x;
  if (lane == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
    barrier_init_fence();
  }
  __syncwarp();
  auto first = [&](long long k) { return (blockIdx.x + k * gridDim.x) * group; };
  auto count = [&](long long k) { return (int)min((long long)group, rows - first(k)); };
  auto load = [&](long long k) {
    const int s = k % STAGES;
    if (lane == 0) barrier_expect(full + s, count(k) * row_bytes);
    __syncwarp();
    if (lane < count(k))
      bulk_load(stages + (s * group + lane) * row_bytes, from + index[first(k) + lane] * row_bytes, row_bytes,
                full + s);
  };
  for (long long k = 0; k < min(mine, (long long)STAGES); ++k) load(k);
  for (long long k = 0; k < mine; ++k) {
    const int s = k % STAGES;
    barrier_wait(full + s, k / STAGES & 1);
    if (lane == 0) {
      bulk_store(to + first(k) * row_bytes, stages + s * group * row_bytes, count(k) * row_bytes);
      bulk_commit();
      bulk_wait_read<1>();  // the group before this one has left its stage
    }
    __syncwarp();
    if (k >= 1 && k - 1 + STAGES < mine) load(k - 1 + STAGES);
  }
  if (lane == 0) bulk_wait<0>();
}
#endif
