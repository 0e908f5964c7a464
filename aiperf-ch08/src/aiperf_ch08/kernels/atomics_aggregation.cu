// The elements of a that are not negative, side by side in out. Kernels differ in who asks for places in out, and for how
// many at a time.
#define THREADS 256
#define WARPS (THREADS / 32)
#define PIECES 32  // of 32 elements, which a warp has; lane k keeps what is known of piece k
#define TILE (THREADS * PIECES)

__device__ __forceinline__ unsigned lanes_before() { return (1u << threadIdx.x % 32) - 1; }

extern "C" {
// Compilers merge additions of a constant by the lanes of a warp, as `per_warp` does. This one is not known to be 1, and
// is merged only where all lanes add.
__global__ void __launch_bounds__(THREADS) per_thread(const int* a, int* out, int* counter, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  const int value = i < n ? a[i] : -1;
  if (value >= 0) out[atomicAdd(counter, 1 + (value >> 31))] = value;
}

// A ballot counts the lanes that want a place; one of them asks for all.
__global__ void __launch_bounds__(THREADS) per_warp(const int* a, int* out, int* counter, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  const int value = i < n ? a[i] : -1;
  const unsigned kept = __ballot_sync(~0u, value >= 0);
  int first = 0;
  if (threadIdx.x % 32 == 0 && kept) first = atomicAdd(counter, __popc(kept));
  first = __shfl_sync(~0u, first, 0);
  if (value >= 0) out[first + __popc(kept & lanes_before())] = value;
}
}

// A warp's elements of a tile, in their order. `kept` of lane k has a bit for each element of piece k that is kept.
struct Elements {
  int values[PIECES];
  unsigned kept;

  __device__ __forceinline__ Elements(const int* a, long long tile, long long n) {
    const long long first = tile * TILE + threadIdx.x / 32 * (32 * PIECES) + threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < PIECES; ++k) values[k] = first + 32 * k < n ? __ldcs(a + first + 32 * k) : -1;
    kept = 0;
#pragma unroll
    for (int k = 0; k < PIECES; ++k) {
      const unsigned piece = __ballot_sync(~0u, values[k] >= 0);
      if (threadIdx.x % 32 == k) kept = piece;
    }
  }
  // The number of elements that are kept before piece k, in lane k; `all` is that of the warp.
  __device__ __forceinline__ int before_piece(int& all) const {
    int sum = __popc(kept);
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int other = __shfl_up_sync(~0u, sum, offset);
      if (threadIdx.x % 32 >= offset) sum += other;
    }
    all = __shfl_sync(~0u, sum, 31);
    return sum - __popc(kept);
  }
  __device__ __forceinline__ void store(int* out, int before) const {
#pragma unroll
    for (int k = 0; k < PIECES; ++k) {
      const unsigned piece = __shfl_sync(~0u, kept, k);
      const int first = __shfl_sync(~0u, before, k);
      if (values[k] >= 0) out[first + __popc(piece & lanes_before())] = values[k];
    }
  }
};

// What the warps before this one keep of the tile; `all` is the tile's number.
__device__ __forceinline__ int before_warp(int of_warp, int& all) {
  __shared__ int counts[WARPS];
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = of_warp;
  __syncthreads();
  int before = 0;
  all = 0;
#pragma unroll
  for (int w = 0; w < WARPS; ++w) {
    if (w < threadIdx.x / 32) before += counts[w];
    all += counts[w];
  }
  return before;
}

// states[tile] is a word of 64 bits: what is known, and the number of elements kept in that tile, or up to its end.
#define OF_TILE (1ull << 32)
#define UP_TO_TILE (2ull << 32)

// The number of elements kept in all tiles before. A warp looks back, 32 tiles at a time, for one that knows its sum.
__device__ __forceinline__ int before_tile(volatile unsigned long long* states, int tile, int count) {
  const int lane = threadIdx.x;
  if (lane == 0) states[tile] = (tile ? OF_TILE : UP_TO_TILE) | (unsigned)count;
  int before = 0;
  for (int last = tile - 1; last >= 0; last -= 32) {
    unsigned long long word = UP_TO_TILE;
    if (last >= lane)
      while ((word = states[last - lane]) < OF_TILE) __nanosleep(200);
    const unsigned known = __ballot_sync(~0u, word >= UP_TO_TILE);
    before += (int)__reduce_add_sync(~0u, known == 0 || lane < __ffs(known) ? (unsigned)word : 0u);
    if (known) break;
  }
  if (lane == 0 && tile) states[tile] = UP_TO_TILE | (unsigned)(before + count);
  return before;
}

extern "C" {
__global__ void __launch_bounds__(THREADS) count_tiles(const int* a, int* counts, long long n) {
  const Elements elements(a, blockIdx.x, n);
  int of_warp, all;
  elements.before_piece(of_warp);
  before_warp(of_warp, all);
  if (threadIdx.x == 0) counts[blockIdx.x] = all;
}
// `sums` has the number of elements kept up to the end of each tile.
__global__ void __launch_bounds__(THREADS) write_tiles(const int* a, int* out, const int* sums, long long n) {
  const Elements elements(a, blockIdx.x, n);
  int of_warp, all;
  const int before = elements.before_piece(of_warp), warp = before_warp(of_warp, all);
  elements.store(out, before + warp + sums[blockIdx.x] - all);
}

__global__ void __launch_bounds__(THREADS) per_block(const int* a, int* out, int* counter, long long n) {
  __shared__ int first;
  const Elements elements(a, blockIdx.x, n);
  int of_warp, all;
  const int before = elements.before_piece(of_warp), warp = before_warp(of_warp, all);
  if (threadIdx.x == 0) first = atomicAdd(counter, all);
  __syncthreads();
  elements.store(out, before + warp + first);
}

// A counter behind the states numbers tiles in the order in which blocks begin, so that no block waits for one to come.
__global__ void __launch_bounds__(THREADS) look_back(const int* a, int* out, unsigned long long* states, long long n) {
  __shared__ int tile, first;
  if (threadIdx.x == 0) tile = (int)atomicAdd(states + gridDim.x, 1ull);
  __syncthreads();
  const Elements elements(a, tile, n);
  int of_warp, all;
  const int before = elements.before_piece(of_warp), warp = before_warp(of_warp, all);
  if (threadIdx.x < 32) {
    const int of_tiles = before_tile(states, tile, all);
    if (threadIdx.x == 0) first = of_tiles;
  }
  __syncthreads();
  elements.store(out, before + warp + first);
}
}
