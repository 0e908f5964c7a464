// C = A B by rows in float32; what differs is how often shared memory is read for a multiply-add, and in what pieces.
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
#define STEP 8       // columns of A and rows of B that are in shared memory at a time
#define THREADS 256  // 16 x 16, with 8 x 8 elements each
#define A_ROW (SIDE + 4)  // A lies turned in shared memory; the padding keeps its rows apart and its fours aligned

struct Tiles {
  float a[STEP * A_ROW];  // element (row, k) at k * A_ROW + row
  float b[STEP * SIDE];   // element (k, column) at k * SIDE + column
};

// A thread's share of a tile: 256 pieces of 16 bytes of each matrix, one a thread.
#define PIECES (SIDE * STEP / 4 / THREADS)
struct Share {
  float4 a[PIECES], b[PIECES];
};
// Four elements of a row from (row, column) on. WHOLE: they are inside, and at a multiple of 16 bytes.
template <bool WHOLE>
__device__ __forceinline__ float4 four(const float* __restrict__ m, int row, int column, int rows, int columns) {
  if (WHOLE) return *reinterpret_cast<const float4*>(m + (long long)row * columns + column);
  return make_float4(inside(m, row, column, rows, columns), inside(m, row, column + 1, rows, columns),
                     inside(m, row, column + 2, rows, columns), inside(m, row, column + 3, rows, columns));
}
template <bool WHOLE>
__device__ __forceinline__ void load(Share& to, const float* __restrict__ a, const float* __restrict__ b, int row0,
                                     int column0, int k0, int rows, int columns, int depth) {
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const int at = i * THREADS + threadIdx.x;
    to.a[i] = four<WHOLE>(a, row0 + at / (STEP / 4), k0 + at % (STEP / 4) * 4, rows, depth);
    to.b[i] = four<WHOLE>(b, k0 + at / (SIDE / 4), column0 + at % (SIDE / 4) * 4, depth, columns);
  }
}
__device__ __forceinline__ void put(Tiles& to, const Share& share) {
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const int at = i * THREADS + threadIdx.x, row = at / (STEP / 4), k = at % (STEP / 4) * 4;
    to.a[k * A_ROW + row] = share.a[i].x, to.a[(k + 1) * A_ROW + row] = share.a[i].y;
    to.a[(k + 2) * A_ROW + row] = share.a[i].z, to.a[(k + 3) * A_ROW + row] = share.a[i].w;
    *reinterpret_cast<float4*>(to.b + 4 * at) = share.b[i];
  }
}

// How the threads' 8 x 8 elements lie in a tile. APART: 16 x 16 threads, 16 rows and columns apart, in reads of single
// words. FOURS: the eight of a thread are two fours, 64 apart, so that a read is 16 bytes. WARPS: the same in a rectangle
// of 64 x 32 elements a warp, in which fours are 32 rows and 16 columns apart.
enum Layout { APART, FOURS, WARPS };
template <Layout LAYOUT>
struct Place {
  int y, x;  // the first row and column
  __device__ __forceinline__ Place() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    y = LAYOUT == APART ? threadIdx.x / 16 : LAYOUT == FOURS ? threadIdx.x / 16 * 4 : warp / 4 * 64 + lane / 4 * 4;
    x = LAYOUT == APART ? threadIdx.x % 16 : LAYOUT == FOURS ? threadIdx.x % 16 * 4 : warp % 4 * 32 + lane % 4 * 4;
  }
  __device__ __forceinline__ int row(int i) const { return y + step(i, 32); }
  __device__ __forceinline__ int column(int i) const { return x + step(i, 16); }
  __device__ __forceinline__ static int step(int i, int apart) {
    return LAYOUT == APART ? 16 * i : i / 4 * (LAYOUT == FOURS ? SIDE / 2 : apart) + i % 4;
  }
};

template <Layout LAYOUT>
__device__ __forceinline__ void read_eight(float (&to)[8], const float* from, int apart) {
  if (LAYOUT == APART) {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = from[16 * i];
    return;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 part = *reinterpret_cast<const float4*>(from + Place<LAYOUT>::step(4 * half, apart));
    to[4 * half] = part.x, to[4 * half + 1] = part.y, to[4 * half + 2] = part.z, to[4 * half + 3] = part.w;
  }
}

template <Layout LAYOUT>
__device__ __forceinline__ void multiply(const Tiles& tiles, float (&sums)[8][8], Place<LAYOUT> place) {
#pragma unroll
  for (int k = 0; k < STEP; ++k) {
    float from_a[8], from_b[8];
    read_eight<LAYOUT>(from_a, tiles.a + k * A_ROW + place.y, 32);
    read_eight<LAYOUT>(from_b, tiles.b + k * SIDE + place.x, 16);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(from_a[i], from_b[j], sums[i][j]);
  }
}

// AHEAD: a thread's share of the next tile is on its way to registers while this tile is multiplied, and goes to the other
// half of shared memory, so that one barrier a step is enough.
template <bool WHOLE, Layout LAYOUT, bool AHEAD>
__device__ __forceinline__ void sum_products(float (&sums)[8][8], Tiles* tiles, const float* __restrict__ a,
                                             const float* __restrict__ b, int row0, int column0, int rows, int columns,
                                             int depth, Place<LAYOUT> place) {
  Share share;
  if (AHEAD) {
    load<WHOLE>(share, a, b, row0, column0, 0, rows, columns, depth);
    put(tiles[0], share);
    __syncthreads();
    for (int k0 = STEP, now = 0; k0 < depth; k0 += STEP, now ^= 1) {
      load<WHOLE>(share, a, b, row0, column0, k0, rows, columns, depth);
      multiply<LAYOUT>(tiles[now], sums, place);
      put(tiles[now ^ 1], share);
      __syncthreads();  // the next tile is whole, and nobody reads this one any more
    }
    multiply<LAYOUT>(tiles[(depth - 1) / STEP % 2], sums, place);
  } else {
    for (int k0 = 0; k0 < depth; k0 += STEP) {
      load<WHOLE>(share, a, b, row0, column0, k0, rows, columns, depth);
      put(tiles[0], share);
      __syncthreads();
      multiply<LAYOUT>(tiles[0], sums, place);
      __syncthreads();
    }
  }
}

// Two blocks a multiprocessor: at most 128 registers a thread.
template <Layout LAYOUT, bool AHEAD>
__global__ void __launch_bounds__(THREADS, 2)
    product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int rows, int columns,
            int depth) {
  __shared__ __align__(16) Tiles tiles[AHEAD ? 2 : 1];
  const Place<LAYOUT> place;
  const int row0 = blockIdx.y * SIDE, column0 = blockIdx.x * SIDE;
  float sums[8][8] = {};
  if (row0 + SIDE <= rows && column0 + SIDE <= columns && depth % STEP == 0 && columns % 4 == 0)
    sum_products<true, LAYOUT, AHEAD>(sums, tiles, a, b, row0, column0, rows, columns, depth, place);
  else
    sum_products<false, LAYOUT, AHEAD>(sums, tiles, a, b, row0, column0, rows, columns, depth, place);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = row0 + place.row(i);
    if (row >= rows) continue;
    float* to = out + (long long)row * columns;
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const int c = column0 + place.column(j);
      if (LAYOUT != APART && columns % 4 == 0 && c < columns) {
        *reinterpret_cast<float4*>(to + c) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
        continue;
      }
#pragma unroll
      for (int v = 0; v < 4; ++v)
        if (column0 + place.column(j + v) < columns) to[column0 + place.column(j + v)] = sums[i][j + v];
    }
  }
}
