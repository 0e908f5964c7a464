// Tiles of 128 x 64 floats are copied out of a matrix with a pitch, each to 32 KiB in a row, and such tiles back into a
// matrix. Beyond the matrix a tile is zero, and nothing is written back. Rows start at multiples of 16 bytes.
#include "aiperf/bulk.cuh"

#define ROWS 128
#define COLUMNS 64
#define QUADS (COLUMNS / 4)
#define TILE (ROWS * COLUMNS)
#define THREADS 256
#define EACH (TILE / 4 / THREADS)  // pieces of 16 bytes a thread

extern __shared__ __align__(128) float4 shared[];

// Where piece k of this thread lies in the matrix, and how many of its four floats are inside.
struct Piece {
  int at, count;
  long long offset;
  __device__ __forceinline__ Piece(int k, int rows, int columns, int pitch) {
    at = threadIdx.x + k * THREADS;
    const int row = blockIdx.y * ROWS + at / QUADS, column = blockIdx.x * COLUMNS + at % QUADS * 4;
    count = row < rows ? max(0, min(4, columns - column)) : 0;
    offset = row * (long long)pitch + column;
  }
};
__device__ __forceinline__ long long tile_start() {
  return (blockIdx.y * (long long)gridDim.x + blockIdx.x) * TILE;
}

// From shared memory to a tile, and to the matrix. Both kernels of threads end with one of these.
__device__ __forceinline__ void store_tile(float* tiles) {
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int at = threadIdx.x + k * THREADS;
    reinterpret_cast<float4*>(tiles + tile_start())[at] = shared[at];
  }
}
__device__ __forceinline__ void store_matrix(float* matrix, int rows, int columns, int pitch) {
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const Piece piece(k, rows, columns, pitch);
    const float4 v = shared[piece.at];
    float* to = matrix + piece.offset;
    if (piece.count == 4) {
      *reinterpret_cast<float4*>(to) = v;
      continue;
    }
    if (piece.count > 0) to[0] = v.x;
    if (piece.count > 1) to[1] = v.y;
    if (piece.count > 2) to[2] = v.z;
  }
}

// 256 threads load 16 bytes each, put them into shared memory, and store from there: each byte passes through registers
// twice, and a thread computes its address four times.
extern "C" __global__ void __launch_bounds__(THREADS)
    load_store(const float* __restrict__ matrix, float* __restrict__ tiles, int rows, int columns, int pitch) {
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const Piece piece(k, rows, columns, pitch);
    float4 v = make_float4(0, 0, 0, 0);
    // The pitch is a multiple of four, so that all of a piece that begins inside can be read.
    if (piece.count > 0) v = *reinterpret_cast<const float4*>(matrix + piece.offset);
    if (piece.count < 4) v.w = 0;
    if (piece.count < 3) v.z = 0;
    if (piece.count < 2) v.y = 0;
    shared[piece.at] = v;
  }
  __syncthreads();
  store_tile(tiles);
}
extern "C" __global__ void __launch_bounds__(THREADS)
    load_store_back(float* __restrict__ matrix, const float* __restrict__ tiles, int rows, int columns, int pitch) {
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int at = threadIdx.x + k * THREADS;
    shared[at] = reinterpret_cast<const float4*>(tiles + tile_start())[at];
  }
  __syncthreads();
  store_matrix(matrix, rows, columns, pitch);
}

// cp.async writes to shared memory by itself: no registers on the way in, but still an instruction for every 16 bytes.
__device__ __forceinline__ void wait_for_copies() {
  async_commit();
  async_wait<0>();
  __syncthreads();
}
extern "C" __global__ void __launch_bounds__(THREADS)
    cp_async(const float* __restrict__ matrix, float* __restrict__ tiles, int rows, int columns, int pitch) {
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const Piece piece(k, rows, columns, pitch);
    async_copy16(shared + piece.at, piece.count ? matrix + piece.offset : matrix, 4 * piece.count);
  }
  wait_for_copies();
  store_tile(tiles);
}
extern "C" __global__ void __launch_bounds__(THREADS)
    cp_async_back(float* __restrict__ matrix, const float* __restrict__ tiles, int rows, int columns, int pitch) {
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    const int at = threadIdx.x + k * THREADS;
    async_copy16(shared + at, tiles + tile_start() + 4 * at);
  }
  wait_for_copies();
  store_matrix(matrix, rows, columns, pitch);
}

#if __CUDA_ARCH__ >= 900
// The copy engine brings a tile to shared memory, and takes it away: an instruction each. The map knows pitch and
// edges.
template <bool BACK>
__device__ __forceinline__ void bring(void* box, const CUtensorMap* matrix, const float* tiles, long long tile,
                                      int across, Barrier* full) {
  barrier_expect(full, TILE * sizeof(float));
  if (BACK)
    bulk_load(box, tiles + tile * TILE, TILE * sizeof(float), full);
  else
    tensor_load(box, matrix, (int)(tile % across) * COLUMNS, (int)(tile / across) * ROWS, full);
}
template <bool BACK>
__device__ __forceinline__ void take(const void* box, const CUtensorMap* matrix, float* tiles, long long tile,
                                     int across) {
  if (BACK)
    tensor_store(matrix, (int)(tile % across) * COLUMNS, (int)(tile / across) * ROWS, box);
  else
    bulk_store(tiles + tile * TILE, box, TILE * sizeof(float));
  bulk_commit();
}

// One lane asks for a tile, waits, and sends it off.
template <bool BACK>
__device__ void one_tile(const CUtensorMap* matrix, float* tiles, int across) {
  __shared__ __align__(8) Barrier full;
  if (threadIdx.x != 0) return;
  barrier_init(&full, 1);
  barrier_init_fence();
  bring<BACK>(shared, matrix, tiles, blockIdx.x, across, &full);
  barrier_wait(&full, 0);
  take<BACK>(shared, matrix, tiles, blockIdx.x, across);
  bulk_wait<0>();
}
extern "C" __global__ void __launch_bounds__(32)
    tensor_copy(const __grid_constant__ CUtensorMap matrix, float* __restrict__ tiles, int across) {
  one_tile<false>(&matrix, tiles, across);
}
extern "C" __global__ void __launch_bounds__(32)
    tensor_copy_back(const __grid_constant__ CUtensorMap matrix, float* __restrict__ tiles, int across) {
  one_tile<true>(&matrix, tiles, across);
}

// The same in a grid that just fills the chip, with three tiles in each block: two arrive while another leaves.
#define STAGES 3

template <bool BACK>
__device__ void ring(const CUtensorMap* matrix, float* tiles, int across, long long count) {
  __shared__ __align__(8) Barrier full[STAGES];
  if (threadIdx.x != 0) return;
  for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
  barrier_init_fence();
  auto load = [&](long long tile, int stage) {
    if (tile < count) bring<BACK>(shared + stage * (TILE / 4), matrix, tiles, tile, across, full + stage);
  };
  for (int s = 0; s < STAGES; ++s) load(blockIdx.x + s * (long long)gridDim.x, s);
  int stage = 0;
  unsigned int parity = 0;
  for (long long tile = blockIdx.x; tile < count; tile += gridDim.x) {
    barrier_wait(full + stage, parity);
    take<BACK>(shared + stage * (TILE / 4), matrix, tiles, tile, across);
    // The tile before this one has left its place, to which the next but one comes.
    bulk_wait_read<1>();
    if (tile != blockIdx.x) load(tile + (STAGES - 1) * (long long)gridDim.x, (stage + STAGES - 1) % STAGES);
    stage = (stage + 1) % STAGES;
    parity ^= stage == 0;
  }
  bulk_wait<0>();
}
extern "C" __global__ void __launch_bounds__(32)
    tensor_ring(const __grid_constant__ CUtensorMap matrix, float* __restrict__ tiles, int across, long long count) {
  ring<false>(&matrix, tiles, across, count);
}
extern "C" __global__ void __launch_bounds__(32)
    tensor_ring_back(const __grid_constant__ CUtensorMap matrix, float* __restrict__ tiles, int across,
                     long long count) {
  ring<true>(&matrix, tiles, across, count);
}
#endif
