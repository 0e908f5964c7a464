// A copy of n 4-byte words; what differs is how many bytes a thread has in flight. The words are never looked at, so
// their type is any of four bytes.
#include "aiperf/bulk.cuh"

// One word a thread: coalesced, and 4 bytes in flight for each of the 2048 threads of a multiprocessor.
extern "C" __global__ void scalar(const void* a_ptr, void* out_ptr, long long n) {
  const unsigned int* a = static_cast<const unsigned int*>(a_ptr);
  unsigned int* b = static_cast<unsigned int*>(out_ptr);
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i];
}

// The last n % 4 words, by the first threads of the grid.
__device__ void copy_tail(const void* a_ptr, void* out_ptr, long long n) {
  long long i = n / 4 * 4 + blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) static_cast<unsigned int*>(out_ptr)[i] = static_cast<const unsigned int*>(a_ptr)[i];
}

// Four words a thread, in one 16-byte load and store (LDG.E.128, STG.E.128).
extern "C" __global__ void wide(const void* a_ptr, void* out_ptr, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n / 4) static_cast<uint4*>(out_ptr)[i] = static_cast<const uint4*>(a_ptr)[i];
  copy_tail(a_ptr, out_ptr, n);
}

// Four such accesses a thread, a block's width apart so that those of a warp stay neighbours. All loads stand before
// the first store: 64 bytes in flight a thread.
extern "C" __global__ void unrolled(const void* a_ptr, void* out_ptr, long long n) {
  const uint4* a = static_cast<const uint4*>(a_ptr);
  uint4* b = static_cast<uint4*>(out_ptr);
  const long long quads = n / 4, step = blockDim.x, first = 4 * (blockIdx.x * step) + threadIdx.x;
  if (first + 3 * step < quads) {
    uint4 part[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) part[k] = a[first + k * step];
#pragma unroll
    for (int k = 0; k < 4; ++k) b[first + k * step] = part[k];
  } else {
    for (long long i = first; i < quads; i += step) b[i] = a[i];
  }
  copy_tail(a_ptr, out_ptr, n);
}

#if __CUDA_ARCH__ >= 900
// No thread touches the data: one of them tells TMA to bring pieces into a ring in shared memory and to
// carry them out again. STAGES pieces of PIECE bytes are in flight in each block.
#define STAGES 4
#define PIECE 8192

extern "C" __global__ void bulk_ring(const void* a_ptr, void* out_ptr, long long n) {
  extern __shared__ __align__(128) char ring[];
  __shared__ __align__(8) unsigned long long full[STAGES];
  const char* a = static_cast<const char*>(a_ptr);
  char* b = static_cast<char*>(out_ptr);
  const long long bytes = n / 4 * 16, pieces = (bytes + PIECE - 1) / PIECE;
  const long long mine = blockIdx.x < pieces ? (pieces - 1 - blockIdx.x) / gridDim.x + 1 : 0;
  copy_tail(a_ptr, out_ptr, n);
  if (threadIdx.x != 0) return;

  for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
  barrier_init_fence();
  auto place = [&](long long k) { return (blockIdx.x + k * gridDim.x) * PIECE; };
  auto length = [&](long long k) { return (unsigned int)min((long long)PIECE, bytes - place(k)); };
  auto load = [&](long long k) {
    barrier_expect(full + k % STAGES, length(k));
    bulk_load(ring + k % STAGES * PIECE, a + place(k), length(k), full + k % STAGES);
  };
  for (long long k = 0; k < min(mine, (long long)STAGES); ++k) load(k);
  for (long long k = 0; k < mine; ++k) {
    barrier_wait(full + k % STAGES, k / STAGES & 1);
    bulk_store(b + place(k), ring + k % STAGES * PIECE, length(k));
    bulk_commit();
    // Piece k - 1 + STAGES goes where piece k - 1 was; its store has had a piece's time to read that.
    bulk_wait_read<1>();
    if (k >= 1 && k - 1 + STAGES < mine) load(k - 1 + STAGES);
  }
  bulk_wait<0>();
}
#endif
