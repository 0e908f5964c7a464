// C = A B by rows in float32; what differs is how often shared memory is read for a multiply-add, and in what pieces.
#include "aiperf/bulk.cuh"

#define TILE 32

// Element (row, column) of a matrix, or zero beyond its edge, which adds nothing.
__device__ __forceinline__ float inside(const float* __restrict__ m, int row, int column, int rows, int columns) {
  return row < rows && column < columns ? m[(long long)row * columns + column] : 0.0f;
}

// An element a thread, from tiles of 32 x 32: two reads of shared memory for a multiply-add.
extern "C" __global__ void __launch_bounds__(TILE* TILE)
    one_output(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int rows, int columns,
               int depth) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
  float total = 0;
  for (int k0 = 0; k0 < depth; k0 += TILE) {
    a_tile[y][x] = inside(a, row, k0 + x, rows, depth);
    b_tile[y][x] = inside(b, k0 + y, column, depth, columns);
    __syncthreads();  // the tiles are whole
#pragma unroll
    for (int k = 0; k < TILE; ++k) total = fmaf(a_tile[y][k], b_tile[k][x], total);
    __syncthreads();  // nobody reads them any more
  }
  if (row < rows && column < columns) out[(long long)row * columns + column] = total;
}

#define SIDE 128     // a block makes 128 x 128 elements of C
#define STEP 16      // columns of A and rows of B that are in shared memory at a time
#define THREADS 256  // 16 x 16, with 8 x 8 elements each
#define A_ROW (SIDE + 4)  // A lies turned in shared memory; the padding keeps its rows apart and its fours aligned

struct Tiles {
  float a[STEP * A_ROW];  // element (row, k) at k * A_ROW + row
  float b[STEP * SIDE];   // element (k, column) at k * SIDE + column
};

// Fills the tiles through registers: 512 pieces of 16 bytes of each matrix, two a thread.
__device__ __forceinline__ void fill(Tiles& to, const float* __restrict__ a, const float* __restrict__ b, int row0,
                                     int column0, int k0, int rows, int columns, int depth) {
#pragma unroll
  for (int at = threadIdx.x; at < SIDE * STEP / 4; at += THREADS) {
    const int row = at / (STEP / 4), k = at % (STEP / 4) * 4;
    float4 part;
    if (depth % 4 == 0 && row0 + row < rows && k0 + k < depth) {
      part = *reinterpret_cast<const float4*>(a + (long long)(row0 + row) * depth + k0 + k);
    } else {
      part = make_float4(inside(a, row0 + row, k0 + k, rows, depth), inside(a, row0 + row, k0 + k + 1, rows, depth),
                         inside(a, row0 + row, k0 + k + 2, rows, depth), inside(a, row0 + row, k0 + k + 3, rows, depth));
    }
    to.a[k * A_ROW + row] = part.x, to.a[(k + 1) * A_ROW + row] = part.y;
    to.a[(k + 2) * A_ROW + row] = part.z, to.a[(k + 3) * A_ROW + row] = part.w;
  }
#pragma unroll
  for (int at = threadIdx.x; at < SIDE * STEP / 4; at += THREADS) {
    const int k = at / (SIDE / 4), column = at % (SIDE / 4) * 4, c = column0 + column;
    float4 part;
    if (columns % 4 == 0 && k0 + k < depth && c < columns) {
      part = *reinterpret_cast<const float4*>(b + (long long)(k0 + k) * columns + c);
    } else {
      part = make_float4(inside(b, k0 + k, c, depth, columns), inside(b, k0 + k, c + 1, depth, columns),
                         inside(b, k0 + k, c + 2, depth, columns), inside(b, k0 + k, c + 3, depth, columns));
    }
    *reinterpret_cast<float4*>(to.b + k * SIDE + column) = part;
  }
}

// A word that is copied past the registers, or a zero.
__device__ __forceinline__ void copy_word(float* to, const float* m, int row, int column, int rows, int columns) {
  if (row < rows && column < columns) async_copy4(to, m + (long long)row * columns + column);
  else *to = 0;
}
// The same by asynchronous copies. Those of A are of single words, because it is turned on the way.
__device__ __forceinline__ void start_fill(Tiles& to, const float* __restrict__ a, const float* __restrict__ b, int row0,
                                           int column0, int k0, int rows, int columns, int depth) {
#pragma unroll
  for (int at = threadIdx.x; at < SIDE * STEP; at += THREADS) {
    const int row = at / STEP, k = at % STEP;
    copy_word(to.a + k * A_ROW + row, a, row0 + row, k0 + k, rows, depth);
  }
#pragma unroll
  for (int at = threadIdx.x; at < SIDE * STEP / 4; at += THREADS) {
    const int k = at / (SIDE / 4), column = at % (SIDE / 4) * 4, c = column0 + column;
    float* piece = to.b + k * SIDE + column;
    if (columns % 4 == 0 && k0 + k < depth && c < columns) {
      async_copy16(piece, b + (long long)(k0 + k) * columns + c);
    } else {
      for (int i = 0; i < 4; ++i) copy_word(piece + i, b, k0 + k, c + i, depth, columns);
    }
  }
}

// Row or column number i of eight, of thread t of 16 along a side. APART: t + 16 i, in reads of single words. Else in two
// fours, 64 apart: the fours of neighbouring threads are neighbours, so that a warp reads lines of shared memory.
template <bool FOURS>
__device__ __forceinline__ int place(int t, int i) {
  return FOURS ? i / 4 * (SIDE / 2) + 4 * t + i % 4 : t + 16 * i;
}

template <bool FOURS>
__device__ __forceinline__ void read_eight(float (&to)[8], const float* row, int t) {
  if (FOURS) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 part = *reinterpret_cast<const float4*>(row + half * (SIDE / 2) + 4 * t);
      to[4 * half] = part.x, to[4 * half + 1] = part.y, to[4 * half + 2] = part.z, to[4 * half + 3] = part.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = row[place<false>(t, i)];
  }
}

template <bool FOURS>
__device__ __forceinline__ void multiply(const Tiles& tiles, float (&sums)[8][8], int x, int y) {
#pragma unroll
  for (int k = 0; k < STEP; ++k) {
    float from_a[8], from_b[8];
    read_eight<FOURS>(from_a, tiles.a + k * A_ROW, y);
    read_eight<FOURS>(from_b, tiles.b + k * SIDE, x);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(from_a[i], from_b[j], sums[i][j]);
  }
}

// RECTANGLES: the 8 warps lie 4 x 2, the lanes of each 4 x 8. Else a warp is two rows of 16 threads. Either way (x, y)
// takes each of 16 x 16 values once. Two blocks a multiprocessor: at most 128 registers a thread.
template <bool FOURS, bool ASYNC, bool RECTANGLES>
__global__ void __launch_bounds__(THREADS, 2)
    product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int rows, int columns,
            int depth) {
  __shared__ __align__(16) Tiles tiles[ASYNC ? 2 : 1];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int x = RECTANGLES ? warp % 2 * 8 + lane % 8 : threadIdx.x % 16;
  const int y = RECTANGLES ? warp / 2 * 4 + lane / 8 : threadIdx.x / 16;
  const int row0 = blockIdx.y * SIDE, column0 = blockIdx.x * SIDE;
  float sums[8][8] = {};
  if (ASYNC) {
    start_fill(tiles[0], a, b, row0, column0, 0, rows, columns, depth);
    async_commit();
    for (int k0 = 0, now = 0; k0 < depth; k0 += STEP, now ^= 1) {
      // Beyond the last tile a group is empty, so that the wait is always for the one before it.
      if (k0 + STEP < depth) start_fill(tiles[now ^ 1], a, b, row0, column0, k0 + STEP, rows, columns, depth);
      async_commit();
      async_wait<1>();
      __syncthreads();  // every thread's part of this tile is there
      multiply<FOURS>(tiles[now], sums, x, y);
      __syncthreads();  // nobody reads it any more; the next round fills it
    }
  } else {
    for (int k0 = 0; k0 < depth; k0 += STEP) {
      fill(tiles[0], a, b, row0, column0, k0, rows, columns, depth);
      __syncthreads();
      multiply<FOURS>(tiles[0], sums, x, y);
      __syncthreads();
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = row0 + place<FOURS>(y, i);
    if (row >= rows) continue;
    float* to = out + (long long)row * columns;
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const int c = column0 + place<FOURS>(x, j);
      if (FOURS && columns % 4 == 0 && c < columns) {
        *reinterpret_cast<float4*>(to + c) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
        continue;
      }
#pragma unroll
      for (int v = 0; v < 4; ++v)
        if (column0 + place<FOURS>(x, j + v) < columns) to[column0 + place<FOURS>(x, j + v)] = sums[i][j + v];
    }
  }
}
