// Inclusive prefix sums of 32-bit integers, which wrap around.
#define WARP 32
#define THREADS 256
#define WARPS (THREADS / WARP)
#define FOURS 8  // of elements a thread, in all kernels: a tile has 8192 elements

// Elements 4 q to 4 q + 3, zeros from n on.
__device__ __forceinline__ int4 load_four(const int* a, long long q, long long n) {
  if (4 * q + 3 < n) return __ldcs(reinterpret_cast<const int4*>(a) + q);
  int4 v = make_int4(0, 0, 0, 0);
  if (4 * q < n) v.x = a[4 * q];
  if (4 * q + 1 < n) v.y = a[4 * q + 1];
  if (4 * q + 2 < n) v.z = a[4 * q + 2];
  return v;
}
__device__ __forceinline__ void store_four(int* out, long long q, long long n, int4 v) {
  if (4 * q + 3 < n) {
    reinterpret_cast<int4*>(out)[q] = v;
    return;
  }
  if (4 * q < n) out[4 * q] = v.x;
  if (4 * q + 1 < n) out[4 * q + 1] = v.y;
  if (4 * q + 2 < n) out[4 * q + 2] = v.z;
}
__device__ __forceinline__ int4 scan_four(int4 v) {
  v.y += v.x, v.z += v.y, v.w += v.z;
  return v;
}
__device__ __forceinline__ int4 add_to_four(int4 v, int offset) {
  return make_int4(v.x + offset, v.y + offset, v.z + offset, v.w + offset);
}

// The first of three steps: a block scans its tile and leaves the tile's sum. The threads' sums meet in shared memory,
// 1024 elements at a time, where each adds what stands 1, 2, 4 ... before it, with two barriers a level.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_by_barriers(const int* __restrict__ a, int* __restrict__ out, int* __restrict__ tile_sums, long long n) {
  __shared__ int sums[THREADS];
  const long long first = blockIdx.x * (long long)(FOURS * THREADS) + threadIdx.x;
  int4 v[FOURS];
#pragma unroll
  for (int k = 0; k < FOURS; ++k) v[k] = scan_four(load_four(a, first + k * THREADS, n));
  int before = 0;  // of the tile's pieces up to here
#pragma unroll
  for (int k = 0; k < FOURS; ++k) {
    sums[threadIdx.x] = v[k].w;
    __syncthreads();
    for (int offset = 1; offset < THREADS; offset *= 2) {
      const int added = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
      __syncthreads();
      sums[threadIdx.x] += added;
      __syncthreads();
    }
    store_four(out, first + k * THREADS, n, add_to_four(v[k], before + sums[threadIdx.x] - v[k].w));
    before += sums[THREADS - 1];
    __syncthreads();
  }
  if (threadIdx.x == 0) tile_sums[blockIdx.x] = before;
}

// The last step: the sum of all tiles before a tile is added to it. The middle one is a scan of the tiles' sums.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_before(int* __restrict__ out, const int* __restrict__ scanned_sums, long long n) {
  if (blockIdx.x == 0) return;
  const long long first = blockIdx.x * (long long)(FOURS * THREADS) + threadIdx.x;
  const int before = scanned_sums[blockIdx.x - 1];
#pragma unroll
  for (int k = 0; k < FOURS; ++k)
    store_four(out, first + k * THREADS, n, add_to_four(load_four(out, first + k * THREADS, n), before));
}

// Prefix sums over a warp in registers: five steps, no memory, no barrier.
__device__ __forceinline__ int scan_warp(int v) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int offset = 1; offset < WARP; offset *= 2) {
    const int before = __shfl_up_sync(~0u, v, offset);
    if (lane >= offset) v += before;
  }
  return v;
}

// The first four elements of this thread in a tile. A warp has 1024 elements in a row, in eight pieces of 128, so that a
// lane loads beside what its neighbours load.
__device__ __forceinline__ long long first_of(long long tile) {
  return (tile * WARPS + threadIdx.x / WARP) * (FOURS * WARP) + threadIdx.x % WARP;
}
// All loads are under way before the first is used; only the last tile has to ask for each.
__device__ __forceinline__ void load_tile(const int* a, long long first, long long n, int4 (&v)[FOURS]) {
  if (4 * (first + (FOURS - 1) * WARP) + 3 < n) {
#pragma unroll
    for (int k = 0; k < FOURS; ++k) v[k] = __ldcs(reinterpret_cast<const int4*>(a) + first + k * WARP);
  } else {
#pragma unroll
    for (int k = 0; k < FOURS; ++k) v[k] = load_four(a, first + k * WARP, n);
  }
}
// Scans each warp's elements by shuffles. Returns the sum of the warps before this one, and that of the tile: one
// barrier.
__device__ __forceinline__ int scan_tile(int4 (&v)[FOURS], int& all) {
  __shared__ int warp_sums[WARPS];
  const int warp = threadIdx.x / WARP;
  int sum = 0;  // of the warp's pieces up to here
#pragma unroll
  for (int k = 0; k < FOURS; ++k) {
    v[k] = scan_four(v[k]);
    const int scanned = scan_warp(v[k].w);
    v[k] = add_to_four(v[k], sum + scanned - v[k].w);
    sum += __shfl_sync(~0u, scanned, WARP - 1);
  }
  if (threadIdx.x % WARP == 0) warp_sums[warp] = sum;
  __syncthreads();
  int before = 0;
  all = 0;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) {
    if (w < warp) before += warp_sums[w];
    all += warp_sums[w];
  }
  return before;
}
__device__ __forceinline__ void store_tile(int* out, long long first, long long n, const int4 (&v)[FOURS], int before) {
#pragma unroll
  for (int k = 0; k < FOURS; ++k) store_four(out, first + k * WARP, n, add_to_four(v[k], before));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_by_shuffles(const int* __restrict__ a, int* __restrict__ out, int* __restrict__ tile_sums, long long n) {
  int4 v[FOURS];
  int all;
  load_tile(a, first_of(blockIdx.x), n, v);
  const int before = scan_tile(v, all);
  store_tile(out, first_of(blockIdx.x), n, v, before);
  if (threadIdx.x == 0) tile_sums[blockIdx.x] = all;
}

// One pass. A block publishes the sum of its tile, and then looks back over the tiles before it: sums are added up
// until a tile is found of which the whole prefix is known. states[tile] is a word of 64 bits, written and read at once:
// what is known of the tile, and the number.
#define TILE_SUM (1ull << 32)
#define PREFIX (2ull << 32)
// How long a block sleeps before it asks, and before it asks again.
#define FIRST_NS 3500
#define PAUSE_NS 500

template <bool DELAYED>
__device__ __forceinline__ unsigned long long ask(volatile unsigned long long* states, int tile) {
  unsigned long long word = PREFIX;  // before the first tile there is nothing
  if (tile >= 0)
    while ((word = states[tile]) < TILE_SUM)
      if (DELAYED) __nanosleep(PAUSE_NS);
  return word;
}
// The sum of what the lanes know, up to the nearest whole prefix; of all lanes, where there is none.
__device__ __forceinline__ unsigned long long window(unsigned long long word) {
  const unsigned int whole = __ballot_sync(~0u, word >= PREFIX);
  const bool counts = whole == 0 || threadIdx.x % WARP <= __ffs(whole) - 1;
  const unsigned int sum = __reduce_add_sync(~0u, counts ? (unsigned int)word : 0u);
  return (whole ? PREFIX : TILE_SUM) | sum;
}
// The sum of all tiles before this one, in every thread. One warp looks back, 32 tiles at a time, while the others wait.
template <bool DELAYED>
__device__ __forceinline__ int before_tile(volatile unsigned long long* states, int tile, int all) {
  __shared__ int found_before;
  if (threadIdx.x < WARP) {
    if (threadIdx.x == 0) states[tile] = (tile == 0 ? PREFIX : TILE_SUM) | (unsigned int)all;
    if (DELAYED) __nanosleep(FIRST_NS);
    int prefix = 0;
    for (int nearest = tile - 1;; nearest -= WARP) {
      const unsigned long long found = window(ask<DELAYED>(states, nearest - (int)threadIdx.x));
      prefix += (int)(unsigned int)found;
      if (found >= PREFIX) break;
    }
    if (threadIdx.x == 0) {
      if (tile > 0) states[tile] = PREFIX | (unsigned int)(prefix + all);
      found_before = prefix;
    }
  }
  __syncthreads();
  return found_before;
}

// A block a tile. A counter behind the states numbers tiles in the order in which blocks begin, so that the tiles before
// have begun.
template <bool DELAYED>
__global__ void __launch_bounds__(THREADS)
    single_pass(const int* __restrict__ a, int* __restrict__ out, unsigned long long* states, long long n) {
  __shared__ int tile_number;
  if (threadIdx.x == 0) tile_number = (int)atomicAdd(states + gridDim.x, 1ull);
  __syncthreads();
  const int tile = tile_number;
  const long long first = first_of(tile);
  int4 v[FOURS];
  int all;
  load_tile(a, first, n, v);
  const int before_warp = scan_tile(v, all);
  store_tile(out, first, n, v, before_tile<DELAYED>(states, tile, all) + before_warp);
}
