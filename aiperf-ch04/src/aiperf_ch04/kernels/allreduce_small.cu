// All-reduce over peer pointers: every rank runs the same grid, and block b of one rank meets block b of the others.
// A word is 16 bytes, eight values. Buffers and flags are given as the addresses of those of all ranks.
#include <cuda_bf16.h>

#define MOST_RANKS 8

union Word {
  uint4 bits;
  __nv_bfloat16 values[8];
};

// Wait for this block of all ranks; what they wrote before can then be read. Epochs only grow: no flag is ever reset.
__device__ void meet(const long long* flags, int rank, int world, int epoch) {
  __syncthreads();
  if (threadIdx.x < world) {
    int* theirs = (int*)flags[threadIdx.x] + blockIdx.x * MOST_RANKS + rank;
    const int* mine = (const int*)flags[rank] + blockIdx.x * MOST_RANKS + threadIdx.x;
    __threadfence_system();
    asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(theirs), "r"(epoch) : "memory");
    int seen;
    do {
      asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
    } while (seen < epoch);
  }
  __syncthreads();
}

__device__ Word load(const __nv_bfloat16* x, long long word, long long n) {
  Word w;
  if (8 * word + 8 <= n) {
    w.bits = reinterpret_cast<const uint4*>(x)[word];
  } else {
    for (int k = 0; k < 8; ++k) w.values[k] = 8 * word + k < n ? x[8 * word + k] : __float2bfloat16(0.0f);
  }
  return w;
}

__device__ void store(__nv_bfloat16* x, long long word, long long n, Word w) {
  if (8 * word + 8 <= n) {
    reinterpret_cast<uint4*>(x)[word] = w.bits;
  } else {
    for (int k = 0; 8 * word + k < n; ++k) x[8 * word + k] = w.values[k];
  }
}

// Eight sums in float32, always in the order of the ranks: all ranks get the same bits. Loads pass the first-level cache,
// which knows nothing of what peers write.
__device__ Word sum(const long long* buffers, long long word, int world) {
  float total[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int peer = 0; peer < world; ++peer) {
    Word w;
    w.bits = __ldcv(reinterpret_cast<const uint4*>(buffers[peer]) + word);
#pragma unroll
    for (int k = 0; k < 8; ++k) total[k] += __bfloat162float(w.values[k]);
  }
  Word w;
#pragma unroll
  for (int k = 0; k < 8; ++k) w.values[k] = __float2bfloat16(total[k]);
  return w;
}

// Copy what this rank has to where the others can read it; read all of theirs and add. `first` is the word at which this
// call's half of the buffers begins: the next call writes the other half, while a slow peer may still read this one.
extern "C" __global__ void one_shot(__nv_bfloat16* x, const long long* buffers, const long long* flags, long long n,
                                    long long first, int rank, int world, int epoch) {
  long long words = (n + 7) / 8, step = (long long)gridDim.x * blockDim.x;
  long long start = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  uint4* mine = reinterpret_cast<uint4*>(buffers[rank]) + first;
  for (long long word = start; word < words; word += step) mine[word] = load(x, word, n).bits;
  meet(flags, rank, world, epoch);
  for (long long word = start; word < words; word += step) store(x, word, n, sum(buffers, first + word, world));
}

// Each rank adds a share of the words for all, leaves the sums in its buffer, and the others fetch them.
extern "C" __global__ void two_shot(__nv_bfloat16* x, const long long* buffers, const long long* flags, long long n,
                                    long long first, int rank, int world, int epoch) {
  long long words = (n + 7) / 8, share = (words + world - 1) / world, step = (long long)gridDim.x * blockDim.x;
  long long start = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  uint4* mine = reinterpret_cast<uint4*>(buffers[rank]) + first;
  for (long long at = start; at < share; at += step)  // of each share what this block will handle: blocks meet one by one
    for (int owner = 0; owner < world; ++owner) {
      long long word = owner * share + at;
      if (word < words) mine[word] = load(x, word, n).bits;
    }
  meet(flags, rank, world, epoch);
  for (long long at = start; at < share; at += step)
    if (rank * share + at < words)
      mine[rank * share + at] = sum(buffers, first + rank * share + at, world).bits;
  meet(flags, rank, world, epoch + 1);
  for (long long at = start; at < share; at += step)
    for (int away = 0; away < world; ++away) {
      int owner = (rank + away) % world;  // not all from the same rank at once
      long long word = owner * share + at;
      if (word < words) {
        Word w;
        w.bits = __ldcv(reinterpret_cast<const uint4*>(buffers[owner]) + first + word);
        store(x, word, n, w);
      }
    }
}
