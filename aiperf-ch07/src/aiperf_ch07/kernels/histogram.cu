// counts[key] += 1 over n keys of one byte, or of two; what differs is how many threads meet at a counter.

#define WARP 32

// Every key is an atomic addition in L2: all threads of the chip meet at the counters.
template <typename Key>
__device__ void shared_by_all(const Key* __restrict__ keys, int* counts, long long n) {
  const long long step = gridDim.x * (long long)blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) atomicAdd(counts + keys[i], 1);
}
extern "C" __global__ void shared_by_all1(const void* keys, int* counts, long long n, int bins, int copies) {
  shared_by_all(static_cast<const unsigned char*>(keys), counts, n);
}
extern "C" __global__ void shared_by_all2(const void* keys, int* counts, long long n, int bins, int copies) {
  shared_by_all(static_cast<const unsigned short*>(keys), counts, n);
}

extern __shared__ int own[];  // `copies` times the counters

__device__ void clear(int bins, int copies) {
  for (int at = threadIdx.x; at < bins * copies; at += blockDim.x) own[at] = 0;
  __syncthreads();
}
// Adds the block's copies to the result: an atomic addition a counter, not one a key.
__device__ void merge(int* counts, int bins, int copies) {
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    int total = 0;
    for (int copy = 0; copy < copies; ++copy) total += own[copy * bins + bin];
    if (total) atomicAdd(counts + bin, total);
  }
}

// Counters in shared memory: one set a block, or as many as `copies`, of which neighbouring warps take different ones.
template <typename Key>
__device__ void by_copies(const Key* __restrict__ keys, int* counts, long long n, int bins, int copies) {
  clear(bins, copies);
  int* mine = own + threadIdx.x / WARP % copies * bins;
  const long long step = gridDim.x * (long long)blockDim.x;
#pragma unroll 4
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) atomicAdd(mine + keys[i], 1);
  merge(counts, bins, copies);
}
extern "C" __global__ void by_copies1(const void* keys, int* counts, long long n, int bins, int copies) {
  by_copies(static_cast<const unsigned char*>(keys), counts, n, bins, copies);
}
extern "C" __global__ void by_copies2(const void* keys, int* counts, long long n, int bins, int copies) {
  by_copies(static_cast<const unsigned short*>(keys), counts, n, bins, copies);
}

// Lanes with the same key find each other (match.any), and the first of them adds for all. It costs a few instructions a
// key, and saves waiting where many are equal.
template <typename Key>
__device__ void by_matches(const Key* __restrict__ keys, int* counts, long long n, int bins, int copies) {
  clear(bins, copies);
  int* mine = own + threadIdx.x / WARP % copies * bins;
  const int lane = threadIdx.x % WARP;
  const long long step = gridDim.x * (long long)blockDim.x, i0 = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  for (long long i = i0; i - lane < n; i += step) {  // the whole warp goes on while one lane has a key
    const unsigned int here = __ballot_sync(~0u, i < n);
    if (i < n) {
      const int key = keys[i];
      const unsigned int equal = __match_any_sync(here, key);
      if (lane == __ffs(equal) - 1) atomicAdd(mine + key, __popc(equal));
    }
  }
  merge(counts, bins, copies);
}
extern "C" __global__ void by_matches1(const void* keys, int* counts, long long n, int bins, int copies) {
  by_matches(static_cast<const unsigned char*>(keys), counts, n, bins, copies);
}
extern "C" __global__ void by_matches2(const void* keys, int* counts, long long n, int bins, int copies) {
  by_matches(static_cast<const unsigned short*>(keys), counts, n, bins, copies);
}

// 16 bytes of keys in one load. RUNS: a thread adds up equal keys in a register for as long as they follow each other.
template <typename Key, bool RUNS>
__device__ void by_pieces(const Key* __restrict__ keys, int* counts, long long n, int bins, int copies) {
  constexpr int V = 16 / sizeof(Key);
  union Piece {
    uint4 all;
    Key keys[V];
  };
  clear(bins, copies);
  int* mine = own + threadIdx.x / WARP % copies * bins;
  const long long step = gridDim.x * (long long)blockDim.x, i0 = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  int held = 0, times = 0;
#pragma unroll 2
  for (long long i = i0; i < n / V; i += step) {
    Piece piece;
    piece.all = __ldcs(reinterpret_cast<const uint4*>(keys) + i);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (!RUNS) {
        atomicAdd(mine + piece.keys[k], 1);
      } else if (piece.keys[k] == held) {
        ++times;
      } else {
        atomicAdd(mine + held, times);
        held = piece.keys[k], times = 1;
      }
    }
  }
  if (times) atomicAdd(mine + held, times);
  for (long long i = n / V * V + i0; i < n; i += step) atomicAdd(mine + keys[i], 1);
  merge(counts, bins, copies);
}
extern "C" __global__ void by_pieces1(const void* keys, int* counts, long long n, int bins, int copies) {
  by_pieces<unsigned char, false>(static_cast<const unsigned char*>(keys), counts, n, bins, copies);
}
extern "C" __global__ void by_pieces2(const void* keys, int* counts, long long n, int bins, int copies) {
  by_pieces<unsigned short, false>(static_cast<const unsigned short*>(keys), counts, n, bins, copies);
}
extern "C" __global__ void by_runs1(const void* keys, int* counts, long long n, int bins, int copies) {
  by_pieces<unsigned char, true>(static_cast<const unsigned char*>(keys), counts, n, bins, copies);
}
extern "C" __global__ void by_runs2(const void* keys, int* counts, long long n, int bins, int copies) {
  by_pieces<unsigned short, true>(static_cast<const unsigned short*>(keys), counts, n, bins, copies);
}
