// out[key] += 1 over n keys of one byte, or of two; what differs is how many threads meet at a counter. `out` is
// zero when a kernel starts.

#define THREADS 1024
// Two blocks a multiprocessor.
#define FILLING __launch_bounds__(THREADS, 2)

// Every key is an atomic addition in L2: all threads of the chip meet at the counters.
template <typename Key>
__global__ void FILLING shared_by_all(const Key* __restrict__ keys, int* out, long long n) {
  const long long step = gridDim.x * (long long)blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) atomicAdd(out + keys[i], 1);
}

// `copies` counters of each bin, side by side: with 32 of them, those of a lane are all in its own bank.
extern __shared__ __align__(16) int own[];

__device__ void clear(int bins, int copies) {
  for (int at = threadIdx.x; at < bins * copies; at += blockDim.x) own[at] = 0;
  __syncthreads();
}
// Adds the block's copies to the result: an atomic addition a counter, not one a key. Lanes begin with different
// copies, which are in different banks. `copies` is a power of two.
__device__ void merge(int* out, int bins, int copies) {
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
    int total = 0;
    for (int k = 0; k < copies; ++k) total += own[bin * copies + (k + bin & copies - 1)];
    if (total) atomicAdd(out + bin, total);
  }
}

// A set of counters in shared memory for the block.
template <typename Key>
__global__ void FILLING by_block(const Key* __restrict__ keys, int* out, long long n, int bins) {
  clear(bins, 1);
  const long long step = gridDim.x * (long long)blockDim.x;
#pragma unroll 4
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) atomicAdd(own + keys[i], 1);
  merge(out, bins, 1);
}

// 16 bytes of keys in one load. RUNS: a thread adds up equal keys in a register for as long as they follow each other.
template <typename Key, bool RUNS>
__global__ void FILLING by_pieces(const Key* keys, int* out, long long n, int bins, int copies) {
  constexpr int V = 16 / sizeof(Key);
  union Piece {
    uint4 all;
    Key keys[V];
  };
  clear(bins, copies);
  int* mine = own + (threadIdx.x & copies - 1);
  const long long step = gridDim.x * (long long)blockDim.x, i0 = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  int held = 0, times = 0;
#pragma unroll 2
  for (long long i = i0; i < n / V; i += step) {
    Piece piece;
    piece.all = reinterpret_cast<const uint4*>(keys)[i];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (!RUNS) {
        atomicAdd(mine + piece.keys[k] * copies, 1);
      } else if (piece.keys[k] == held) {
        ++times;
      } else {
        atomicAdd(mine + held * copies, times);
        held = piece.keys[k], times = 1;
      }
    }
  }
  if (times) atomicAdd(mine + held * copies, times);
  for (long long i = n / V * V + i0; i < n; i += step) atomicAdd(mine + keys[i] * copies, 1);
  merge(out, bins, copies);
}

// Each thread counts in 256 bytes of its own, without atomics. A word has counters of four bins; the words of thread
// t are t, t + OWNERS, ..., all in one bank, which no other lane of its warp uses. Before a byte overflows the block
// adds them up.
#define OWNERS 256
#define WORDS 64    // of a thread: 256 bins
#define PIECES 15   // of 16 keys between two flushes: with one key of the tail at most 241 a counter
#define PART 64     // threads whose counters of four bins a thread adds up: sums below 2^16
#define PARTS (OWNERS / PART)

// Thread t adds the counters of bins 4 q to 4 q + 3 of 64 threads, where q = t % 64, and clears them. Lanes begin at
// different 16-byte pieces, which are in different banks.
__device__ __forceinline__ void flush(int* totals) {
  __syncthreads();
  uint4* pieces = reinterpret_cast<uint4*>(own + threadIdx.x % WORDS * OWNERS + threadIdx.x / WORDS * PART);
  unsigned int even = 0, odd = 0;  // two sums of 16 bits each
#pragma unroll 4
  for (int k = 0; k < PART / 4; ++k) {
    const int at = (k + threadIdx.x) % (PART / 4);
    const uint4 four = pieces[at];
    pieces[at] = make_uint4(0, 0, 0, 0);
    for (unsigned int word : {four.x, four.y, four.z, four.w}) {
      even += word & 0x00ff00ff;
      odd += word >> 8 & 0x00ff00ff;
    }
  }
  totals[0] += even & 0xffff, totals[1] += odd & 0xffff, totals[2] += even >> 16, totals[3] += odd >> 16;
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(OWNERS, 3) by_thread1(const void* keys, int* out, long long n, int bins) {
  unsigned char* mine = reinterpret_cast<unsigned char*>(own + threadIdx.x);
  auto add = [&](unsigned int key) { ++mine[(key & ~3u) * OWNERS + key % 4]; };
  for (int k = 0; k < WORDS; ++k) own[k * OWNERS + threadIdx.x] = 0;

  const uint4* from = static_cast<const uint4*>(keys);
  const long long pieces = n / 16, step = gridDim.x * (long long)OWNERS;
  const long long tail = 16 * pieces + blockIdx.x * (long long)OWNERS + threadIdx.x;
  if (tail < n) add(static_cast<const unsigned char*>(keys)[tail]);
  int totals[4] = {};
  long long first = blockIdx.x * (long long)OWNERS, i = first + threadIdx.x;
  uint4 next = i < pieces ? from[i] : make_uint4(0, 0, 0, 0);
  do {
    for (int k = 0; k < PIECES && i < pieces; ++k) {
      const uint4 piece = next;
      i += step;
      if (i < pieces) next = from[i];  // arrives while this one is counted
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const unsigned int word = w == 0 ? piece.x : w == 1 ? piece.y : w == 2 ? piece.z : piece.w;
        add(word & 0xff), add(word >> 8 & 0xff), add(word >> 16 & 0xff), add(word >> 24);
      }
    }
    flush(totals);
    first += PIECES * step;
  } while (first < pieces);  // the same for all threads of the block

  const int q = threadIdx.x % WORDS, part = threadIdx.x / WORDS;
  for (int b = 0; b < 4; ++b) own[part * OWNERS + 4 * q + b] = totals[b];
  __syncthreads();
  int total = 0;
  for (int k = 0; k < PARTS; ++k) total += own[k * OWNERS + threadIdx.x];
  if (threadIdx.x < bins && total) atomicAdd(out + threadIdx.x, total);
}
