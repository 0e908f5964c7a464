// Sweeps of Jacobi's iteration on n x n points with zeros around them: each becomes the mean of its four neighbours. A
// thread has four columns of some rows, and a warp 128 columns. The kernels differ in where the points are between sweeps,
// and in how a block waits for its neighbours.
#include "grid_barrier.cuh"

#define WARP 32
#define COLUMNS (4 * WARP)
#define THREADS 256  // of kernels whose points are in memory, with ROWS rows a thread
#define ROWS 4
#define CHIP_WARPS 16  // of a block whose points stay in registers, with CHIP_ROWS rows a thread
#define CHIP_ROWS 16
#define TILE_ROWS (CHIP_WARPS * CHIP_ROWS)
#define RIM (2 * COLUMNS + 2 * TILE_ROWS)  // words: the first and the last row of a tile, its first and its last column

typedef unsigned long long Tagged;  // a value, and above it the number of its sweep: they arrive together

__device__ __forceinline__ int parts(int size, int part) { return (size + part - 1) / part; }
__device__ __forceinline__ bool in_fours(const float* u, int n) {
  return n % 4 == 0 && (unsigned long long)u % 16 == 0;
}

// Points outside are zero.
__device__ __forceinline__ float point(const float* u, int n, int row, int column) {
  return row >= 0 && row < n && column >= 0 && column < n ? u[row * (long long)n + column] : 0;
}
__device__ __forceinline__ float4 four_points(const float* u, int n, int row, int column) {
  if (in_fours(u, n) && row >= 0 && row < n && column < n)
    return *reinterpret_cast<const float4*>(u + row * (long long)n + column);
  return make_float4(point(u, n, row, column), point(u, n, row, column + 1), point(u, n, row, column + 2),
                     point(u, n, row, column + 3));
}
__device__ __forceinline__ void store_four(float* u, int n, int row, int column, float4 v) {
  if (row >= n || column >= n) return;
  float* to = u + row * (long long)n + column;
  if (in_fours(u, n)) {
    *reinterpret_cast<float4*>(to) = v;
    return;
  }
  to[0] = v.x;
  if (column + 1 < n) to[1] = v.y;
  if (column + 2 < n) to[2] = v.z;
  if (column + 3 < n) to[3] = v.w;
}

// A sweep of a thread's R rows in place. `beside` is the column to the left of the warp in lane 0, to the right in lane 31.
template <int R>
__device__ __forceinline__ void relax(float4 (&u)[R], float4 above, float4 below, const float (&beside)[R]) {
  const int lane = threadIdx.x % WARP;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float4 old = u[r], under = r + 1 < R ? u[r + 1 < R ? r + 1 : 0] : below;
    float left = __shfl_up_sync(~0u, old.w, 1), right = __shfl_down_sync(~0u, old.x, 1);
    if (lane == 0) left = beside[r];
    if (lane == WARP - 1) right = beside[r];
    u[r].x = 0.25f * ((above.x + under.x) + (left + old.y));
    u[r].y = 0.25f * ((above.y + under.y) + (old.x + old.z));
    u[r].z = 0.25f * ((above.z + under.z) + (old.y + old.w));
    u[r].w = 0.25f * ((above.w + under.w) + (old.z + right));
    above = old;
  }
}

// A sweep of all points, from memory to memory.
__device__ __forceinline__ void sweep_all(float* to, const float* from, int n) {
  const int lane = threadIdx.x % WARP, across = parts(n, COLUMNS), tile_rows = THREADS / WARP * ROWS;
  for (int tile = blockIdx.x; tile < across * parts(n, tile_rows); tile += gridDim.x) {
    const int row = tile / across * tile_rows + threadIdx.x / WARP * ROWS, column = tile % across * COLUMNS + 4 * lane;
    float4 u[ROWS];
    float beside[ROWS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      u[r] = four_points(from, n, row + r, column);
      if (lane == 0) beside[r] = point(from, n, row + r, column - 1);
      if (lane == WARP - 1) beside[r] = point(from, n, row + r, column + 4);
    }
    relax(u, four_points(from, n, row - 1, column), four_points(from, n, row + ROWS, column), beside);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) store_four(to, n, row + r, column, u[r]);
  }
}

__device__ __forceinline__ void put(float* to, float v, unsigned int) { *(volatile float*)to = v; }
__device__ __forceinline__ void put(Tagged* to, float v, unsigned int sweep) {
  *(volatile Tagged*)to = (Tagged)sweep << 32 | __float_as_uint(v);
}
__device__ __forceinline__ float value(float word) { return word; }
__device__ __forceinline__ float value(Tagged word) { return __uint_as_float((unsigned int)word); }
__device__ __forceinline__ bool is_of(float, unsigned int) { return true; }
__device__ __forceinline__ bool is_of(Tagged word, unsigned int sweep) { return word >> 32 == sweep; }

// All sweeps on points in registers. In each, a thread publishes the words of the tile's rim that it has, and the rows
// that other warps of the block need; then it takes what it needs. Rims and rows have two places, for odd and even sweeps:
// a thread publishes sweep s + 2 after it took the words of s + 1 that the thread beside it published behind taking s.
template <class Word>
__device__ __forceinline__ void keep_on_chip(float* out, const float* u, Word* rims, unsigned long long* arrived, int n,
                                             int sweeps) {
  __shared__ float4 rows[2][CHIP_WARPS][2][WARP];
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, across = parts(n, COLUMNS), block = blockIdx.x;
  const int first_row = block / across * TILE_ROWS, first_column = block % across * COLUMNS;
  const int row = first_row + warp * CHIP_ROWS, column = first_column + 4 * lane;
  const bool top = warp == 0, bottom = warp == CHIP_WARPS - 1, left = lane == 0, right = lane == WARP - 1;
  const bool cut = first_row + TILE_ROWS > n || first_column + COLUMNS > n;
  const int upper = 4 * lane, lower = COLUMNS + upper, sides = 2 * COLUMNS + warp * CHIP_ROWS;
  const bool sees_row = top && first_row > 0 || bottom && first_row + TILE_ROWS < n;
  const bool sees_side = left && first_column > 0 || right && first_column + COLUMNS < n;
  float4 own[CHIP_ROWS];
#pragma unroll
  for (int r = 0; r < CHIP_ROWS; ++r) own[r] = four_points(u, n, row + r, column);

  unsigned long long until = 0;
  for (unsigned int sweep = 1; sweep <= sweeps; ++sweep) {
    Word* all = rims + sweep % 2 * (long long)gridDim.x * RIM;
    Word* mine = all + block * RIM;
    float4(*shared)[2][WARP] = rows[sweep % 2];
    if (top || bottom) {
      const float4 v = top ? own[0] : own[CHIP_ROWS - 1];
      Word* to = mine + (top ? upper : lower);
      put(to, v.x, sweep), put(to + 1, v.y, sweep), put(to + 2, v.z, sweep), put(to + 3, v.w, sweep);
    }
    if (left || right) {
#pragma unroll
      for (int r = 0; r < CHIP_ROWS; ++r)
        put(mine + sides + (right ? TILE_ROWS : 0) + r, right ? own[r].w : own[r].x, sweep);
    }
    shared[warp][0][lane] = own[0], shared[warp][1][lane] = own[CHIP_ROWS - 1];
    if (arrived) grid_sync(arrived, until);
    else __syncthreads();

    const Word* row_from = all + (top ? block - across : block + across) * RIM + (top ? lower : upper);
    const Word* side_from = all + (left ? block - 1 : block + 1) * RIM + sides + (left ? TILE_ROWS : 0);
    Word of_row[4] = {}, of_side[CHIP_ROWS] = {};
    bool there;
    do {  // all loads are under way before the first is looked at
      there = true;
      if (sees_row)
#pragma unroll
        for (int i = 0; i < 4; ++i) of_row[i] = ((const volatile Word*)row_from)[i];
      if (sees_side)
#pragma unroll
        for (int i = 0; i < CHIP_ROWS; ++i) of_side[i] = ((const volatile Word*)side_from)[i];
#pragma unroll
      for (int i = 0; i < 4; ++i) there &= !sees_row || is_of(of_row[i], sweep);
#pragma unroll
      for (int i = 0; i < CHIP_ROWS; ++i) there &= !sees_side || is_of(of_side[i], sweep);
    } while (!there);
    const float4 outer = make_float4(value(of_row[0]), value(of_row[1]), value(of_row[2]), value(of_row[3]));
    float beside[CHIP_ROWS];
#pragma unroll
    for (int r = 0; r < CHIP_ROWS; ++r) beside[r] = value(of_side[r]);
    relax(own, top ? outer : shared[top ? 0 : warp - 1][1][lane],
          bottom ? outer : shared[bottom ? warp : warp + 1][0][lane], beside);
    if (cut) {
#pragma unroll
      for (int r = 0; r < CHIP_ROWS; ++r) {
        const bool inside = row + r < n;
        own[r].x = inside && column < n ? own[r].x : 0, own[r].y = inside && column + 1 < n ? own[r].y : 0;
        own[r].z = inside && column + 2 < n ? own[r].z : 0, own[r].w = inside && column + 3 < n ? own[r].w : 0;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < CHIP_ROWS; ++r) store_four(out, n, row + r, column, own[r]);
}

extern "C" {
__global__ void __launch_bounds__(THREADS) sweep(float* to, const float* from, int n) { sweep_all(to, from, n); }

// `spare` is another array: results of even sweeps, counted from the last, are in `out`.
__global__ void __launch_bounds__(THREADS)
    in_memory(float* out, const float* u, float* spare, unsigned long long* arrived, int n, int sweeps) {
  unsigned long long until = 0;
  for (int left = sweeps; left > 0; --left) {
    sweep_all(left % 2 ? out : spare, left == sweeps ? u : left % 2 ? spare : out, n);
    if (left > 1) grid_sync(arrived, until);
  }
}
__global__ void __launch_bounds__(CHIP_WARPS* WARP, 1)
    in_registers(float* out, const float* u, float* rims, unsigned long long* arrived, int n, int sweeps) {
  keep_on_chip(out, u, rims, arrived, n, sweeps);
}
// No word of `rims` has a number at the start.
__global__ void __launch_bounds__(CHIP_WARPS* WARP, 1)
    by_neighbours(float* out, const float* u, unsigned long long* rims, int n, int sweeps) {
  keep_on_chip(out, u, rims, nullptr, n, sweeps);
}
}
