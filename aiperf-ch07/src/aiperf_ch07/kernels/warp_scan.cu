// Inclusive prefix sums of 32-bit integers, which wrap around.
#define WARP 32
#define THREADS 256
#define WARPS (THREADS / WARP)

// Elements 4 q to 4 q + 3, zeros from n on.
__device__ __forceinline__ int4 load_four(const int* a, long long q, long long n) {
  if (4 * q + 3 < n) return __ldcs(reinterpret_cast<const int4*>(a) + q);
  int4 v = make_int4(0, 0, 0, 0);
  if (4 * q < n) v.x = a[4 * q];
  if (4 * q + 1 < n) v.y = a[4 * q + 1];
  if (4 * q + 2 < n) v.z = a[4 * q + 2];
  return v;
}
__device__ __forceinline__ void store_four(int* b, long long q, long long n, int4 v) {
  if (4 * q + 3 < n) {
    reinterpret_cast<int4*>(b)[q] = v;
    return;
  }
  if (4 * q < n) b[4 * q] = v.x;
  if (4 * q + 1 < n) b[4 * q + 1] = v.y;
  if (4 * q + 2 < n) b[4 * q + 2] = v.z;
}
__device__ __forceinline__ int4 scan_four(int4 v) {
  v.y += v.x, v.z += v.y, v.w += v.z;
  return v;
}
__device__ __forceinline__ int4 add_to_four(int4 v, int offset) {
  return make_int4(v.x + offset, v.y + offset, v.z + offset, v.w + offset);
}

// The first of three steps: a block scans its tile of 1024 elements and leaves the tile's sum. Four elements a thread; the
// threads' sums meet in shared memory, where each adds what stands 1, 2, 4 ... before it, with two barriers a level.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_by_barriers(const int* __restrict__ a, int* __restrict__ b, int* __restrict__ tile_sums, long long n) {
  __shared__ int sums[THREADS];
  const long long q = blockIdx.x * (long long)THREADS + threadIdx.x;
  const int4 v = scan_four(load_four(a, q, n));
  sums[threadIdx.x] = v.w;
  __syncthreads();
  for (int offset = 1; offset < THREADS; offset *= 2) {
    const int before = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  store_four(b, q, n, add_to_four(v, sums[threadIdx.x] - v.w));
  if (threadIdx.x == THREADS - 1) tile_sums[blockIdx.x] = sums[threadIdx.x];
}

// The last step: what stands before a tile is added to all of it. The middle one is a scan of the tiles' sums.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_before(int* __restrict__ b, const int* __restrict__ scanned_sums, long long n) {
  if (blockIdx.x == 0) return;
  const long long q = blockIdx.x * (long long)THREADS + threadIdx.x;
  store_four(b, q, n, add_to_four(load_four(b, q, n), scanned_sums[blockIdx.x - 1]));
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

// Returns what the block's warps before this one have, when each has `sum`, and the sum of all: one barrier.
__device__ __forceinline__ int before_warp(int sum, int* warp_sums, int& all) {
  const int warp = threadIdx.x / WARP;
  if (threadIdx.x % WARP == WARP - 1) warp_sums[warp] = sum;
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

// The same tile as above; the threads' sums stay in registers.
extern "C" __global__ void __launch_bounds__(THREADS)
    tiles_by_shuffles(const int* __restrict__ a, int* __restrict__ b, int* __restrict__ tile_sums, long long n) {
  __shared__ int warp_sums[WARPS];
  const long long q = blockIdx.x * (long long)THREADS + threadIdx.x;
  const int4 v = scan_four(load_four(a, q, n));
  const int scanned = scan_warp(v.w);
  int all;
  const int before = before_warp(scanned, warp_sums, all);
  store_four(b, q, n, add_to_four(v, before + scanned - v.w));
  if (threadIdx.x == 0) tile_sums[blockIdx.x] = all;
}

// One pass. A block scans its tile of 4096 elements and publishes the tile's sum; then its first warp looks back over the
// tiles before it, 32 at a time: sums are added up until a tile is found of which the whole prefix is known already.
// Tiles are numbered in the order in which blocks begin, so that those looked for have begun.
// states[0] counts tiles; states[1 + tile] is a word of 64 bits, written and read at once: what is known, and the number.
#define FOURS 4  // of elements a thread
#define TILE_SUM (1ull << 32)
#define PREFIX (2ull << 32)

extern "C" __global__ void __launch_bounds__(THREADS)
    look_back(const int* __restrict__ a, int* __restrict__ b, unsigned long long* states, long long n) {
  __shared__ int warp_sums[WARPS], tile_number, before_tile;
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  if (threadIdx.x == 0) tile_number = (int)atomicAdd(states, 1ull);
  __syncthreads();
  const int tile = tile_number;
  volatile unsigned long long* known = states + 1;

  // A warp has 512 elements in a row, in four pieces of 128: what a lane loads lies beside what its neighbours load.
  const long long first = (tile * (long long)WARPS + warp) * (FOURS * WARP) + lane;
  int4 v[FOURS];
#pragma unroll
  for (int k = 0; k < FOURS; ++k) v[k] = load_four(a, first + k * WARP, n);
  int sum = 0;  // of the warp's pieces up to here
#pragma unroll
  for (int k = 0; k < FOURS; ++k) {
    v[k] = scan_four(v[k]);
    const int scanned = scan_warp(v[k].w);
    v[k] = add_to_four(v[k], sum + scanned - v[k].w);
    sum += __shfl_sync(~0u, scanned, WARP - 1);
  }
  int all;
  const int before = before_warp(sum, warp_sums, all);

  if (warp == 0) {
    if (lane == 0) known[tile] = (tile == 0 ? PREFIX : TILE_SUM) | (unsigned int)all;
    int prefix = 0;
    for (int at = tile - 1 - lane; tile > 0; at -= WARP) {
      unsigned long long word = PREFIX;  // before the first tile there is nothing
      if (at >= 0)
        while ((word = known[at]) < TILE_SUM) {
        }
      const unsigned int whole = __ballot_sync(~0u, word >= PREFIX);
      // Of the lanes up to the nearest whole prefix; of all, where there is none.
      const int counts = whole == 0 || lane <= __ffs(whole) - 1 ? (int)(unsigned int)word : 0;
      prefix += __shfl_sync(~0u, scan_warp(counts), WARP - 1);
      if (whole) break;
    }
    if (lane == 0) {
      if (tile > 0) known[tile] = PREFIX | (unsigned int)(prefix + all);
      before_tile = prefix;
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < FOURS; ++k) store_four(b, first + k * WARP, n, add_to_four(v[k], before_tile + before));
}
