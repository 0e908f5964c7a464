// Walks through a table of random places. What differs is how many walks a thread has under way; the grid decides how
// many warps there are.
#define THREADS 128  // of a block at most

// WALKS of a thread at the same time, a block's width apart. Walks beyond the last one go along and are not stored.
template <int WALKS>
__device__ __forceinline__ void walk(const int* __restrict__ table, const int* start, int* out, int hops, int walks) {
  const int threads = blockDim.x;
  const long long step = (long long)gridDim.x * threads * WALKS;
  for (long long at = (long long)blockIdx.x * threads * WALKS + threadIdx.x; at < walks; at += step) {
    int place[WALKS];
#pragma unroll
    for (int w = 0; w < WALKS; ++w) place[w] = at + w * threads < walks ? start[at + w * threads] : 0;
    for (int hop = 0; hop < hops; ++hop)
#pragma unroll
      for (int w = 0; w < WALKS; ++w) place[w] = table[place[w]];
#pragma unroll
    for (int w = 0; w < WALKS; ++w)
      if (at + w * threads < walks) out[at + w * threads] = place[w];
  }
}

extern "C" {
__global__ void __launch_bounds__(THREADS)
    one_walk(const int* table, const int* start, int* out, int hops, int walks) {
  walk<1>(table, start, out, hops, walks);
}
__global__ void __launch_bounds__(THREADS)
    two_walks(const int* table, const int* start, int* out, int hops, int walks) {
  walk<2>(table, start, out, hops, walks);
}
__global__ void __launch_bounds__(THREADS)
    four_walks(const int* table, const int* start, int* out, int hops, int walks) {
  walk<4>(table, start, out, hops, walks);
}
__global__ void __launch_bounds__(THREADS)
    eight_walks(const int* table, const int* start, int* out, int hops, int walks) {
  walk<8>(table, start, out, hops, walks);
}
}
