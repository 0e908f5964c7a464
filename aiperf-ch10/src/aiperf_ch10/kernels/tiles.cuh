// What the matrix products of this chapter share: the walk over the tiles of C, the store of a pair of elements, and a
// ring of places in shared memory.
#pragma once
#include "instructions.cuh"

typedef unsigned short Half;  // the bits of a bfloat16

__device__ __forceinline__ constexpr int parts(int size, int part) { return (size + part - 1) / part; }

// The first row and column of a tile of ROWS x COLUMNS. Tiles are numbered down the columns of a group of rows of
// tiles, so that those that are computed at the same time find each other's operands in L2.
template <int ROWS, int COLUMNS, int GROUP>
struct Corner {
  int row, column;
  __device__ __forceinline__ Corner(int tile, int m, int n) {
    const int down = parts(m, ROWS), across = parts(n, COLUMNS);
    const int group = tile / (GROUP * across) * GROUP, rest = tile % (GROUP * across);
    const int high = min(GROUP, down - group);
    row = (group + rest % high) * ROWS, column = rest / high * COLUMNS;
  }
};

// Elements (r, c) and (r, c + 1) of an m x n matrix, as far as they are inside. c is even.
__device__ __forceinline__ void store_pair(Half* out, int r, int c, int m, int n, float low, float high) {
  if (r >= m || c >= n) return;
  Half* to = out + r * (long long)n + c;
  if (n % 2 == 0) {
    *reinterpret_cast<unsigned int*>(to) = pack_bf16(low, high);
  } else {
    to[0] = to_bf16(low);
    if (c + 1 < n) to[1] = to_bf16(high);
  }
}

#if __CUDA_ARCH__ >= 900
#define WARPGROUP 128  // threads, which multiply 64 rows together
#define WARPS 4        // of a warpgroup

// Waits of all kernels end. Steps are numbered through all tiles of a block: step i uses place i % STAGES in round i /
// STAGES. A round of `full` is completed by TMA, which counts boxes beyond the edges as full too. A round of `empty` is
// completed by the warps that multiply, and these wait for nothing but `full`. Steps are asked for in the order in which
// they are multiplied, so that the oldest place that is not empty always belongs to products that are under way. The
// parity of a round is enough to tell it from its neighbours, because no place begins a round before all warps that wait
// for the last one have seen it.
template <int STAGES>
struct Ring {
  Barrier full[STAGES], empty[STAGES];
  __device__ __forceinline__ void init(int warps_that_multiply) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + s, 1);
      barrier_init(empty + s, warps_that_multiply);
    }
  }
};
#endif
