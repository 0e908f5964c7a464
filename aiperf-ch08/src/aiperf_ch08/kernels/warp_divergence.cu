// Each element takes one of four paths; path 0 is 40 times as long as the others. Kernels differ in which lanes are on
// the long path at the same time.
#include "series.h"

#define LONG 960
#define SHORT 24
#define FIRST(path) (1000 * (path))  // of the coefficients of a path
#define THREADS 128
#define TILE 8192  // elements of a block that looks for long paths

typedef unsigned char Path;

template <int DEGREE, int FROM>
__device__ __forceinline__ float horner(float t) {
  float y = TERM(FROM + DEGREE);
#pragma unroll
  for (int k = DEGREE - 1; k >= 0; --k) y = fmaf(y, t, TERM(FROM + k));
  return y;
}
__device__ __forceinline__ float long_path(float t) { return horner<LONG, FIRST(0)>(t); }
__device__ __forceinline__ float short_path(Path path, float t) {
  switch (path) {
    case 1: return horner<SHORT, FIRST(1)>(t);
    case 2: return horner<SHORT, FIRST(2)>(t);
    default: return horner<SHORT, FIRST(3)>(t);
  }
}

extern "C" {
// A warp goes through every path that one of its lanes is on; the other lanes wait.
__global__ void __launch_bounds__(THREADS) branches(const Path* path, const float* t, float* out, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i >= n) return;
  if (path[i] == 0) out[i] = long_path(t[i]);
  else out[i] = short_path(path[i], t[i]);
}

// Every lane computes all paths and takes one result: no branch, and no less work than the warp above.
__global__ void __launch_bounds__(THREADS) select(const Path* path, const float* t, float* out, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i >= n) return;
  const float x = t[i];
  const float y0 = long_path(x), y1 = horner<SHORT, FIRST(1)>(x), y2 = horner<SHORT, FIRST(2)>(x);
  const float y3 = horner<SHORT, FIRST(3)>(x);
  const Path mine = path[i];
  out[i] = mine == 0 ? y0 : mine == 1 ? y1 : mine == 2 ? y2 : y3;
}
}

// The short paths of a tile, at once; the places of the long ones within the tile go to `places`, and their number to
// `count`. The lanes of a warp reserve room together: one atomic, and behind it a lane's place is the number of lanes
// before it that want one.
__device__ __forceinline__ void short_ones(const Path* path, const float* t, float* out, long long n, long long start,
                                           unsigned short* places, int* count) {
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0) *count = 0;
  __syncthreads();
  for (int k = threadIdx.x; k < TILE; k += THREADS) {  // TILE is a multiple of THREADS: no lane leaves early
    const bool there = start + k < n;
    const Path mine = there ? path[start + k] : 1;
    const unsigned others = __ballot_sync(~0u, mine == 0);
    int first = 0;
    if (lane == 0 && others) first = atomicAdd(count, __popc(others));
    first = __shfl_sync(~0u, first, 0);
    if (mine == 0) places[first + __popc(others & ((1u << lane) - 1))] = k;
    else if (there) out[start + k] = short_path(mine, t[start + k]);
  }
  __syncthreads();
}

extern "C" {
// Then the threads of the block share the long ones: all lanes of a warp are on that path, but for the last few.
__global__ void __launch_bounds__(THREADS) compacted(const Path* path, const float* t, float* out, long long n) {
  __shared__ unsigned short places[TILE];
  __shared__ int count;
  const long long start = blockIdx.x * (long long)TILE;
  short_ones(path, t, out, n, start, places, &count);
  for (int k = threadIdx.x; k < count; k += THREADS) out[start + places[k]] = long_path(t[start + places[k]]);
}

// Or a list in memory collects the long ones of all blocks, for a kernel of their own. Room in it is reserved once a
// block.
__global__ void __launch_bounds__(THREADS)
    short_and_list(const Path* path, const float* t, float* out, int* list, int* listed, long long n) {
  __shared__ unsigned short places[TILE];
  __shared__ int count, first;
  const long long start = blockIdx.x * (long long)TILE;
  short_ones(path, t, out, n, start, places, &count);
  if (threadIdx.x == 0) first = atomicAdd(listed, count);
  __syncthreads();
  for (int k = threadIdx.x; k < count; k += THREADS) list[first + k] = (int)(start + places[k]);
}
__global__ void __launch_bounds__(THREADS) of_list(const float* t, float* out, const int* list, const int* listed) {
  const int count = *listed;
  for (int k = blockIdx.x * THREADS + threadIdx.x; k < count; k += gridDim.x * THREADS)
    out[list[k]] = long_path(t[list[k]]);
}
}
