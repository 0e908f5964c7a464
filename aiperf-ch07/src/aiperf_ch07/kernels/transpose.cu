// out[c][r] = in[r][c]; what differs is which of the two sides is coalesced, and where shared memory makes lanes
// wait. Words are of 4 bytes (float) or of 2 (bfloat16), of which only the bits count.
#include "aiperf/bulk.cuh"

#define TILE 64  // 64 x 64 words by 256 threads, so that a row of 2-byte words is a whole line too
#define THREADS 256
#define NARROW 32  // of the baseline, by 32 x 8 threads
#define ROWS 8

typedef unsigned int Word;
typedef unsigned short Half;

// Neighbouring lanes read neighbours and write to rows of their own: each store of a warp opens 32 sectors.
template <typename T>
__device__ void direct(const void* a, void* to, int rows, int columns) {
  const T* in = static_cast<const T*>(a);
  T* out = static_cast<T*>(to);
  const int c = blockIdx.x * NARROW + threadIdx.x;
#pragma unroll
  for (int k = 0; k < NARROW; k += ROWS) {
    int r = blockIdx.y * NARROW + threadIdx.y + k;
    if (r < rows && c < columns) out[(long long)c * rows + r] = in[(long long)r * columns + c];
  }
}
extern "C" {
__global__ void direct4(const void* a, void* out, int rows, int columns) { direct<Word>(a, out, rows, columns); }
__global__ void direct2(const void* a, void* out, int rows, int columns) { direct<Half>(a, out, rows, columns); }
}

// Where word (r, c) of a tile lies. A column of PLAIN lies in one bank, and the lanes of a warp read it one after
// the other. PADDED rows are 4 bytes longer, so that each begins in the next bank. SWIZZLED rows exchange their
// 4-byte words: word number w of row r lies at w ^ r % 32.
enum Layout { PLAIN, PADDED, SWIZZLED };

template <typename T, Layout LAYOUT>
__device__ __forceinline__ int place(int r, int c) {
  constexpr int W = 4 / sizeof(T);  // words of the matrix in one of a bank
  if (LAYOUT == PADDED) return r * (TILE + W) + c;
  if (LAYOUT == SWIZZLED) return r * TILE + (c / W ^ r % 32) * W + c % W;
  return r * TILE + c;
}

// A tile that overhangs the matrix, or whose rows are not aligned for a form: word by word.
template <typename T, int (*PLACE)(int, int)>
__device__ void by_words(const T* in, T* out, T* tile, int rows, int columns, int r0, int c0) {
  for (int at = threadIdx.x; at < TILE * TILE; at += THREADS) {
    const int r = at / TILE, c = at % TILE;
    if (r0 + r < rows && c0 + c < columns) tile[PLACE(r, c)] = in[(long long)(r0 + r) * columns + c0 + c];
  }
  __syncthreads();
  for (int at = threadIdx.x; at < TILE * TILE; at += THREADS) {
    const int c = at / TILE, r = at % TILE;
    if (r0 + r < rows && c0 + c < columns) out[(long long)(c0 + c) * rows + r0 + r] = tile[PLACE(r, c)];
  }
}

// Both sides coalesced: a tile is read by rows and written by columns. All loads of a thread are under way before the
// first word is stored, whatever the layout: otherwise layouts would differ in bytes in flight.
template <typename T, Layout LAYOUT>
__device__ void tiled(const void* a, void* to, int rows, int columns) {
  const T* in = static_cast<const T*>(a);
  T* out = static_cast<T*>(to);
  __shared__ T tile[TILE * (TILE + 4 / sizeof(T))];
  const int r0 = blockIdx.y * TILE, c0 = blockIdx.x * TILE;
  if (r0 + TILE > rows || c0 + TILE > columns) {
    by_words<T, place<T, LAYOUT>>(in, out, tile, rows, columns, r0, c0);
    return;
  }
  constexpr int EACH = TILE * TILE / THREADS, STEP = THREADS / TILE;
  const int row = threadIdx.x / TILE, column = threadIdx.x % TILE;
  T part[EACH];
  in += (long long)(r0 + row) * columns + c0 + column;
#pragma unroll
  for (int k = 0; k < EACH; ++k) part[k] = in[(long long)k * STEP * columns];
#pragma unroll
  for (int k = 0; k < EACH; ++k) tile[place<T, LAYOUT>(row + k * STEP, column)] = part[k];
  __syncthreads();
  out += (long long)(c0 + row) * rows + r0 + column;
#pragma unroll
  for (int k = 0; k < EACH; ++k) out[(long long)k * STEP * rows] = tile[place<T, LAYOUT>(column, row + k * STEP)];
}
extern "C" {
__global__ void tiled4(const void* a, void* out, int rows, int columns) { tiled<Word, PLAIN>(a, out, rows, columns); }
__global__ void tiled2(const void* a, void* out, int rows, int columns) { tiled<Half, PLAIN>(a, out, rows, columns); }
__global__ void padded4(const void* a, void* out, int rows, int columns) { tiled<Word, PADDED>(a, out, rows, columns); }
__global__ void padded2(const void* a, void* out, int rows, int columns) { tiled<Half, PADDED>(a, out, rows, columns); }
__global__ void swizzled4(const void* a, void* out, int rows, int columns) {
  tiled<Word, SWIZZLED>(a, out, rows, columns);
}
__global__ void swizzled2(const void* a, void* out, int rows, int columns) {
  tiled<Half, SWIZZLED>(a, out, rows, columns);
}
}

// Accesses of 16 bytes on both sides of global memory. Rows exchange 16-byte pieces: those of row r by r / V, where
// V is the words of a piece. So the eight lanes that take one column of neighbouring pieces find them in different
// banks.
template <typename T>
__device__ __forceinline__ int piece_place(int r, int c) {
  constexpr int V = 16 / sizeof(T);
  return r * TILE + (c / V ^ (r / V & 7)) * V + c % V;
}

template <typename T, bool STREAMING>
__device__ void wide(const void* a, void* to, int rows, int columns) {
  const T* in = static_cast<const T*>(a);
  T* out = static_cast<T*>(to);
  constexpr int V = 16 / sizeof(T), PIECES = TILE / V;  // words of a piece, pieces of a row
  __shared__ __align__(128) T tile[TILE * TILE];
  const int r0 = blockIdx.y * TILE, c0 = blockIdx.x * TILE;
  // Rows must start at multiples of 16 bytes, on either side.
  if (rows % V || columns % V || r0 + TILE > rows || c0 + TILE > columns) {
    by_words<T, piece_place<T>>(in, out, tile, rows, columns, r0, c0);
    return;
  }
  union Piece {
    uint4 all;
    T words[V];
  };
  constexpr int EACH = TILE * PIECES / THREADS;  // pieces a thread: 4, or 2 of halves
  Piece part[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    int at = threadIdx.x + THREADS * k, r = at / PIECES, c = at % PIECES * V;
    const uint4* from = reinterpret_cast<const uint4*>(in + (long long)(r0 + r) * columns + c0 + c);
    part[k].all = STREAMING ? __ldcs(from) : *from;
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    int at = threadIdx.x + THREADS * k, r = at / PIECES, c = at % PIECES * V;
    *reinterpret_cast<uint4*>(tile + piece_place<T>(r, c)) = part[k].all;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    // V columns by the pieces of their rows: lanes with one piece write to V rows of the output, 128 bytes to each.
    int at = threadIdx.x + THREADS * k, c = at / (V * PIECES) * V + at % V, r = at / V % PIECES * V;
#pragma unroll
    for (int v = 0; v < V; ++v) part[k].words[v] = tile[piece_place<T>(r + v, c)];
    uint4* row = reinterpret_cast<uint4*>(out + (long long)(c0 + c) * rows + r0 + r);
    if (STREAMING) __stcs(row, part[k].all);
    else *row = part[k].all;
  }
}
extern "C" {
__global__ void __launch_bounds__(THREADS) wide4(const void* a, void* out, int rows, int columns) {
  wide<Word, false>(a, out, rows, columns);
}
__global__ void __launch_bounds__(THREADS) wide2(const void* a, void* out, int rows, int columns) {
  wide<Half, false>(a, out, rows, columns);
}
__global__ void __launch_bounds__(THREADS) streaming4(const void* a, void* out, int rows, int columns) {
  wide<Word, true>(a, out, rows, columns);
}
__global__ void __launch_bounds__(THREADS) streaming2(const void* a, void* out, int rows, int columns) {
  wide<Half, true>(a, out, rows, columns);
}
}

#if __CUDA_ARCH__ >= 900
// TMA moves a tile in boxes of 64 rows of 128 bytes: two of 4-byte words, one of 2-byte words. It
// exchanges the 16-byte pieces of row r by r % 8 (the 128-byte swizzle), on the way in and on the way out.
template <typename T>
__device__ __forceinline__ int box_place(int r, int c) {
  constexpr int SIDE = 128 / sizeof(T), V = 16 / sizeof(T);  // words of a box's row, and of a piece
  return c / SIDE * (TILE * SIDE) + r * SIDE + (c % SIDE / V ^ (r & 7)) * V + c % V;
}

// A warp walks the diagonals of half a quarter of the tile: lane l takes column l of row l + k, so that 32 lanes
// meet 32 banks in reading and in writing.
__device__ void turn(const Word* from, Word* to, int warp, int lane) {
  const int r0 = warp / 4 * 32, c = warp / 2 % 2 * 32 + lane;
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const int r = r0 + (lane + k + warp % 2 * 16) % 32;
    to[box_place<Word>(c, r)] = from[box_place<Word>(r, c)];
  }
}
// Likewise with squares of 2 x 2 in place of words: two 4-byte reads, two 4-byte writes.
__device__ void turn(const Half* from, Half* to, int warp, int lane) {
  const int c = 2 * lane;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int r = (lane + k + warp * 4) % 32 * 2;
    const Word upper = *reinterpret_cast<const Word*>(from + box_place<Half>(r, c));
    const Word lower = *reinterpret_cast<const Word*>(from + box_place<Half>(r + 1, c));
    *reinterpret_cast<Word*>(to + box_place<Half>(c, r)) = __byte_perm(upper, lower, 0x5410);
    *reinterpret_cast<Word*>(to + box_place<Half>(c + 1, r)) = __byte_perm(upper, lower, 0x7632);
  }
}

template <typename T>
__device__ void by_tensor_map(const CUtensorMap* a_map, const CUtensorMap* out_map) {
  extern __shared__ __align__(1024) char boxes[];  // a tile in, a tile out
  __shared__ __align__(8) Barrier full;
  constexpr int SIDE = 128 / sizeof(T);
  T *in = reinterpret_cast<T*>(boxes), *out = in + TILE * TILE;
  const int r0 = blockIdx.y * TILE, c0 = blockIdx.x * TILE;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    barrier_init_fence();
    barrier_expect(&full, TILE * TILE * sizeof(T));
    for (int c = 0; c < TILE; c += SIDE) tensor_load(in + c * TILE, a_map, c0 + c, r0, &full);
  }
  __syncthreads();  // the barrier must exist before a thread waits for it
  barrier_wait(&full, 0);
  turn(in, out, threadIdx.x / 32, threadIdx.x % 32);
  fence_for_copy_engine();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int r = 0; r < TILE; r += SIDE) tensor_store(out_map, r0 + r, c0, out + r * TILE);
    bulk_commit();
    bulk_wait<0>();
  }
}
extern "C" {
__global__ void tensor_map4(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap out_map) {
  by_tensor_map<Word>(&a_map, &out_map);
}
__global__ void tensor_map2(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap out_map) {
  by_tensor_map<Half>(&a_map, &out_map);
}
}
#endif
