// out[c][r] = in[r][c]; what differs is which of the two sides is coalesced, and where shared memory makes lanes wait. Words
// are of 4 bytes (float) or of 2 (bfloat16), of which only the bits count.
#include "aiperf/bulk.cuh"

#define TILE 32  // of the kernels with one word an access: 32 x 32, by 32 x 8 threads
#define ROWS 8

// Neighbouring lanes read neighbours and write to rows of their own: each store of a warp opens 32 sectors.
template <typename T>
__device__ void direct(const T* in, T* out, int rows, int columns) {
  const int c = blockIdx.x * TILE + threadIdx.x;
#pragma unroll
  for (int k = 0; k < TILE; k += ROWS) {
    int r = blockIdx.y * TILE + threadIdx.y + k;
    if (r < rows && c < columns) out[(long long)c * rows + r] = in[(long long)r * columns + c];
  }
}
extern "C" __global__ void direct4(const void* a, void* out, int rows, int columns) {
  direct(static_cast<const unsigned int*>(a), static_cast<unsigned int*>(out), rows, columns);
}
extern "C" __global__ void direct2(const void* a, void* out, int rows, int columns) {
  direct(static_cast<const unsigned short*>(a), static_cast<unsigned short*>(out), rows, columns);
}

// Both sides coalesced: a tile is read by rows and written by columns. With PITCH = 32 words of 4 bytes the 32 words of a
// column lie in one bank, and the warp takes them one after the other; with 33 they lie in 32 banks.
template <typename T, int PITCH>
__device__ void tiled(const T* in, T* out, int rows, int columns) {
  __shared__ T tile[TILE][PITCH];
  const int r0 = blockIdx.y * TILE, c0 = blockIdx.x * TILE;
#pragma unroll
  for (int k = 0; k < TILE; k += ROWS) {
    const int r = r0 + threadIdx.y + k, c = c0 + threadIdx.x;
    if (r < rows && c < columns) tile[threadIdx.y + k][threadIdx.x] = in[(long long)r * columns + c];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < TILE; k += ROWS) {
    const int r = r0 + threadIdx.x, c = c0 + threadIdx.y + k;
    if (r < rows && c < columns) out[(long long)c * rows + r] = tile[threadIdx.x][threadIdx.y + k];
  }
}
extern "C" __global__ void tiled4(const void* a, void* out, int rows, int columns) {
  tiled<unsigned int, TILE>(static_cast<const unsigned int*>(a), static_cast<unsigned int*>(out), rows, columns);
}
extern "C" __global__ void tiled2(const void* a, void* out, int rows, int columns) {
  tiled<unsigned short, TILE>(static_cast<const unsigned short*>(a), static_cast<unsigned short*>(out), rows, columns);
}
extern "C" __global__ void padded4(const void* a, void* out, int rows, int columns) {
  tiled<unsigned int, TILE + 1>(static_cast<const unsigned int*>(a), static_cast<unsigned int*>(out), rows, columns);
}
// Of words of 2 bytes two share a bank's word, so the pitch is odd in those: 34 halves are 17 words.
extern "C" __global__ void padded2(const void* a, void* out, int rows, int columns) {
  tiled<unsigned short, TILE + 2>(static_cast<const unsigned short*>(a), static_cast<unsigned short*>(out), rows,
                                  columns);
}

// A tile of 64 x 64 in accesses of 16 bytes on both sides of global memory, by 256 threads. It is kept by rows of 16-byte
// pieces; those of row r are exchanged among each other by r / V, where V is the words of a piece. So the eight lanes that
// take one column of neighbouring pieces find them in different banks, without padding.
#define WIDE 64

template <typename T>
__device__ int place(int r, int c) {
  constexpr int V = 16 / sizeof(T);
  return r * WIDE + ((c / V) ^ (r / V & 7)) * V + c % V;
}

template <typename T>
__device__ void swizzled(const T* in, T* out, int rows, int columns) {
  constexpr int V = 16 / sizeof(T), PIECES = WIDE / V;  // words of a piece, pieces of a row
  __shared__ __align__(128) T tile[WIDE * WIDE];
  const int r0 = blockIdx.y * WIDE, c0 = blockIdx.x * WIDE;
  // Rows must start at multiples of 16 bytes, on either side.
  if (rows % V || columns % V || r0 + WIDE > rows || c0 + WIDE > columns) {
    for (int at = threadIdx.x; at < WIDE * WIDE; at += blockDim.x) {
      int r = at / WIDE, c = at % WIDE;
      if (r0 + r < rows && c0 + c < columns) tile[place<T>(r, c)] = in[(long long)(r0 + r) * columns + c0 + c];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < WIDE * WIDE; at += blockDim.x) {
      int c = at / WIDE, r = at % WIDE;
      if (r0 + r < rows && c0 + c < columns) out[(long long)(c0 + c) * rows + r0 + r] = tile[place<T>(r, c)];
    }
    return;
  }
  union Piece {
    uint4 all;
    T words[V];
  };
  constexpr int EACH = WIDE * PIECES / 256;  // pieces a thread: 4, or 2 of halves
  Piece part[EACH];
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    int at = threadIdx.x + 256 * k, r = at / PIECES, c = at % PIECES * V;
    part[k].all = __ldcs(reinterpret_cast<const uint4*>(in + (long long)(r0 + r) * columns + c0 + c));
  }
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    int at = threadIdx.x + 256 * k, r = at / PIECES, c = at % PIECES * V;
    *reinterpret_cast<uint4*>(tile + place<T>(r, c)) = part[k].all;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < EACH; ++k) {
    // V columns by the pieces of their rows: lanes with one piece write to V rows of the output, 128 bytes to each.
    int at = threadIdx.x + 256 * k, c = at / (V * PIECES) * V + at % V, r = at / V % PIECES * V;
#pragma unroll
    for (int v = 0; v < V; ++v) part[k].words[v] = tile[place<T>(r + v, c)];
    __stcs(reinterpret_cast<uint4*>(out + (long long)(c0 + c) * rows + r0 + r), part[k].all);
  }
}
extern "C" __global__ void __launch_bounds__(256) swizzled4(const void* a, void* out, int rows, int columns) {
  swizzled(static_cast<const unsigned int*>(a), static_cast<unsigned int*>(out), rows, columns);
}
extern "C" __global__ void __launch_bounds__(256) swizzled2(const void* a, void* out, int rows, int columns) {
  swizzled(static_cast<const unsigned short*>(a), static_cast<unsigned short*>(out), rows, columns);
}

#if __CUDA_ARCH__ >= 900
// The copy engine brings four tiles of 32 x 32 and takes four away; it exchanges the 16-byte pieces of a row by its number
// modulo 8 (the 128-byte swizzle), on the way in and on the way out. Between, each warp walks the diagonals of half a
// tile: lane l takes column l of row l + k, so that 32 lanes meet 32 banks in reading and in writing.
#define BOX 32

extern "C" __global__ void __launch_bounds__(256)
    tensor_map(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  extern __shared__ __align__(1024) float boxes[];  // four in, four out
  __shared__ __align__(8) Barrier full;
  const int r0 = blockIdx.y * 2 * BOX, c0 = blockIdx.x * 2 * BOX;
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    barrier_init_fence();
    barrier_expect(&full, 4 * BOX * BOX * sizeof(float));
    for (int b = 0; b < 4; ++b) tensor_load(boxes + b * BOX * BOX, &in, c0 + b % 2 * BOX, r0 + b / 2 * BOX, &full);
  }
  __syncthreads();  // nobody waits for a barrier that is not there yet
  barrier_wait(&full, 0);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, b = warp / 2;
  const float* from = boxes + b * BOX * BOX;
  float* to = boxes + (4 + b) * BOX * BOX;
#pragma unroll
  for (int k = 0; k < BOX / 2; ++k) {
    int c = lane, r = (lane + k + warp % 2 * (BOX / 2)) % BOX;
    to[c * BOX + ((r / 4) ^ (c & 7)) * 4 + r % 4] = from[r * BOX + ((c / 4) ^ (r & 7)) * 4 + c % 4];
  }
  fence_for_copy_engine();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int n = 0; n < 4; ++n)
      tensor_store(&out, r0 + n / 2 * BOX, c0 + n % 2 * BOX, boxes + (4 + n) * BOX * BOX);
    bulk_commit();
    bulk_wait<0>();
  }
}
#endif
