// Tiles of 128 x 64 floats are copied out of a matrix with a pitch, each to 32 KiB in a row; beyond the matrix a tile is zero.
#include "aiperf/bulk.cuh"

#define ROWS 128
#define COLUMNS 64
#define QUADS (COLUMNS / 4)
#define TILE (ROWS * COLUMNS)
#define THREADS 256

// How many of the four floats from (row, column) on lie inside.
__device__ __forceinline__ int inside(int row, int column, int rows, int columns) {
  return row < rows ? max(0, min(4, columns - column)) : 0;
}

// 256 threads load 16 bytes each, put them into shared memory, and store from there: each byte passes through registers
// twice, and its address is computed by a thread four times. Rows start at multiples of 16 bytes.
extern "C" __global__ void __launch_bounds__(THREADS)
    load_store(const float* __restrict__ matrix, float* __restrict__ packed, int rows, int columns, int pitch) {
  extern __shared__ __align__(128) float4 tile[];
  const int row0 = blockIdx.y * ROWS, column0 = blockIdx.x * COLUMNS;
#pragma unroll
  for (int k = 0; k < TILE / 4 / THREADS; ++k) {
    const int at = threadIdx.x + k * THREADS, row = row0 + at / QUADS, column = column0 + at % QUADS * 4;
    const float* from = matrix + (long long)row * pitch + column;
    const int count = inside(row, column, rows, columns);
    float4 v = make_float4(0, 0, 0, 0);
    if (count > 0) v = *reinterpret_cast<const float4*>(from);
    if (count < 4) v.w = 0;
    if (count < 3) v.z = 0;
    if (count < 2) v.y = 0;
    tile[at] = v;
  }
  __syncthreads();
  float4* to = reinterpret_cast<float4*>(packed) + (blockIdx.y * (long long)gridDim.x + blockIdx.x) * (TILE / 4);
#pragma unroll
  for (int k = 0; k < TILE / 4 / THREADS; ++k) to[threadIdx.x + k * THREADS] = tile[threadIdx.x + k * THREADS];
}

// cp.async writes to shared memory by itself: no registers on the way in, but still an instruction for every 16 bytes.
extern "C" __global__ void __launch_bounds__(THREADS)
    cp_async(const float* __restrict__ matrix, float* __restrict__ packed, int rows, int columns, int pitch) {
  extern __shared__ __align__(128) float4 tile[];
  const int row0 = blockIdx.y * ROWS, column0 = blockIdx.x * COLUMNS;
#pragma unroll
  for (int k = 0; k < TILE / 4 / THREADS; ++k) {
    const int at = threadIdx.x + k * THREADS, row = row0 + at / QUADS, column = column0 + at % QUADS * 4;
    const int count = inside(row, column, rows, columns);
    async_copy16(tile + at, count ? matrix + (long long)row * pitch + column : matrix, 4 * count);
  }
  async_commit();
  async_wait<0>();
  __syncthreads();
  float4* to = reinterpret_cast<float4*>(packed) + (blockIdx.y * (long long)gridDim.x + blockIdx.x) * (TILE / 4);
#pragma unroll
  for (int k = 0; k < TILE / 4 / THREADS; ++k) to[threadIdx.x + k * THREADS] = tile[threadIdx.x + k * THREADS];
}

#if __CUDA_ARCH__ >= 900
// One lane asks for the tile, waits, and sends it off: two instructions for 32 KiB. The map knows pitch and edges.
extern "C" __global__ void __launch_bounds__(32)
    tensor_copy(const __grid_constant__ CUtensorMap matrix, float* __restrict__ packed) {
  extern __shared__ __align__(128) float box[];
  __shared__ __align__(8) Barrier full;
  if (threadIdx.x != 0) return;
  barrier_init(&full, 1);
  barrier_init_fence();
  barrier_expect(&full, TILE * sizeof(float));
  tensor_load(box, &matrix, blockIdx.x * COLUMNS, blockIdx.y * ROWS, &full);
  barrier_wait(&full, 0);
  bulk_store(packed + (blockIdx.y * (long long)gridDim.x + blockIdx.x) * TILE, box, TILE * sizeof(float));
  bulk_commit();
  bulk_wait<0>();
}

// The same in a grid that just fills the chip, with three tiles in each block: one arrives while another leaves.
#define STAGES 3

extern "C" __global__ void __launch_bounds__(32)
    tensor_ring(const __grid_constant__ CUtensorMap matrix, float* __restrict__ packed, long long tiles, int across) {
  extern __shared__ __align__(128) float boxes[];
  __shared__ __align__(8) Barrier full[STAGES];
  if (threadIdx.x != 0) return;
  for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
  barrier_init_fence();
  auto load = [&](long long tile, int stage) {
    barrier_expect(full + stage, TILE * sizeof(float));
    tensor_load(boxes + stage * TILE, &matrix, (int)(tile % across) * COLUMNS, (int)(tile / across) * ROWS, full + stage);
  };
  for (int s = 0; s < STAGES; ++s)
    if (blockIdx.x + s * (long long)gridDim.x < tiles) load(blockIdx.x + s * (long long)gridDim.x, s);
  int stage = 0;
  unsigned int parity = 0;
  for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    barrier_wait(full + stage, parity);
    bulk_store(packed + tile * TILE, boxes + stage * TILE, TILE * sizeof(float));
    bulk_commit();
    // The tile before this one has left its place, to which the one after the next two comes.
    bulk_wait_read<1>();
    const long long coming = tile + (STAGES - 1) * (long long)gridDim.x;
    if (tile != blockIdx.x && coming < tiles) load(coming, (stage + STAGES - 1) % STAGES);
    stage = (stage + 1) % STAGES;
    parity ^= stage == 0;
  }
  bulk_wait<0>();
}
#endif
