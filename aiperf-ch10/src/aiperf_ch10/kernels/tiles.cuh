// What the matrix products of this chapter share: the walk over the tiles of C, and the store of a pair of elements.
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
