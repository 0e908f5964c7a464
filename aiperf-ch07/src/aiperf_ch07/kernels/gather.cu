// out[i] = table[index[i]] for rows of `width` halves (bfloat16, of which only the bits count).
#include "aiperf/bulk.cuh"

#define WARP 32

// One row by `lanes` threads, of which this is number `lane`: in pieces of 16 bytes where rows consist of them.
__device__ __forceinline__ void copy_row(const unsigned short* from, unsigned short* to, int width, int lane,
                                         int lanes) {
  if (width % 8 == 0) {
    for (int c = lane; c < width / 8; c += lanes)
      reinterpret_cast<uint4*>(to)[c] = reinterpret_cast<const uint4*>(from)[c];
  } else {
    for (int c = lane; c < width; c += lanes) to[c] = from[c];
  }
}

// A thread copies a row, so the lanes of a warp are in 32 rows at once: each access opens 32 sectors on either side.
extern "C" __global__ void thread_per_row(const void* table, const int* __restrict__ index, void* out, long long rows,
                                          int width) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= rows) return;
  copy_row(static_cast<const unsigned short*>(table) + index[i] * (long long)width,
           static_cast<unsigned short*>(out) + i * width, width, 0, 1);
}

// A warp copies a row: its lanes take neighbouring pieces, 512 bytes in one access.
extern "C" __global__ void warp_per_row(const void* table, const int* __restrict__ index, void* out, long long rows,
                                        int width) {
  long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / WARP;
  if (i >= rows) return;
  copy_row(static_cast<const unsigned short*>(table) + index[i] * (long long)width,
           static_cast<unsigned short*>(out) + i * width, width, threadIdx.x % WARP, WARP);
}

// Four rows a warp: the four indices are read together, then the four rows, before anything is stored. Row i of the
// draw goes to row order[i] of the output, or without an order to row i.
#define ROWS 4

__device__ __forceinline__ void copy_four_rows(const void* table, const int* __restrict__ index,
                                               const long long* __restrict__ order, void* out, long long rows,
                                               int width) {
  const unsigned short* from = static_cast<const unsigned short*>(table);
  unsigned short* to = static_cast<unsigned short*>(out);
  const int lane = threadIdx.x % WARP;
  long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / WARP * ROWS;
  if (first >= rows) return;
  if (width % 8 || first + ROWS > rows) {
    for (long long i = first; i < min(first + ROWS, rows); ++i)
      copy_row(from + index[i] * (long long)width, to + (order ? order[i] : i) * width, width, lane, WARP);
    return;
  }
  long long start[ROWS], end[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    start[r] = index[first + r] * (long long)width;
    end[r] = (order ? order[first + r] : first + r) * width;
  }
#pragma unroll 1
  for (int c = 8 * lane; c < width; c += 8 * WARP) {
    uint4 piece[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) piece[r] = *reinterpret_cast<const uint4*>(from + start[r] + c);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) *reinterpret_cast<uint4*>(to + end[r] + c) = piece[r];
  }
}
extern "C" __global__ void four_rows(const void* table, const int* __restrict__ index, void* out, long long rows,
                                     int width) {
  copy_four_rows(table, index, nullptr, out, rows, width);
}
extern "C" __global__ void in_order(const void* table, const int* __restrict__ sorted,
                                    const long long* __restrict__ order, void* out, long long rows, int width) {
  copy_four_rows(table, sorted, order, out, rows, width);
}

#if __CUDA_ARCH__ >= 900
// A bulk copy a row: lane l asks for row l of a group, and one store carries the whole group away, since the rows of
// the output are neighbours. STAGES groups of up to 32 rows are in flight in each warp.
#define STAGES 4

extern "C" __global__ void bulk_rows(const void* table, const int* __restrict__ index, void* out, long long rows,
                                     int width, int group) {
  extern __shared__ __align__(128) char stages[];
  __shared__ __align__(8) Barrier full[STAGES];
  const char* from = static_cast<const char*>(table);
  char* to = static_cast<char*>(out);
  const long long row_bytes = 2LL * width, groups = (rows + group - 1) / group;
  const long long mine = blockIdx.x < groups ? (groups - 1 - blockIdx.x) / gridDim.x + 1 : 0;
  const int lane = threadIdx.x;
  if (lane == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
    barrier_init_fence();
  }
  __syncwarp();
  auto first = [&](long long k) { return (blockIdx.x + k * gridDim.x) * group; };
  auto count = [&](long long k) { return (int)min((long long)group, rows - first(k)); };
  auto load = [&](long long k) {
    const int s = k % STAGES, here = count(k);
    if (lane == 0) barrier_expect(full + s, here * row_bytes);
    __syncwarp();
    if (lane < here)
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
      bulk_wait_read<1>();  // the group before this one has left its place
    }
    __syncwarp();
    if (k >= 1 && k - 1 + STAGES < mine) load(k - 1 + STAGES);
  }
  if (lane == 0) bulk_wait<0>();
}
#endif
