// Tiles of 32 x 32 words, turned `passes` times in shared memory: t <- 5 t^T + 1. A warp has a tile to itself: lane l
// takes row l out (each row read by one lane, so a load of the warp reads a column), and puts it back as column l.
#define SIDE 32
#define WARPS 4

enum Layout { PLAIN, PADDED, SWIZZLED };

// Where word c of row r lies. 32 lanes with different r and the same c, or with the same r and different c, should
// meet 32 banks. PLAIN: the bank is c. PADDED: it is (r + c) % 32. SWIZZLED: it is r ^ c.
template <Layout LAYOUT>
__device__ __forceinline__ int place(int r, int c) {
  if (LAYOUT == PADDED) return r * (SIDE + 1) + c;
  if (LAYOUT == SWIZZLED) return r * SIDE + (r ^ c);
  return r * SIDE + c;
}

template <Layout LAYOUT>
__device__ __forceinline__ void turned(const unsigned* __restrict__ a, unsigned* __restrict__ out, int tiles,
                                       int passes) {
  __shared__ unsigned memory[WARPS][SIDE * (SIDE + 1)];
  unsigned* tile = memory[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  const long long number = blockIdx.x * (long long)WARPS + threadIdx.x / 32, first = number * SIDE * SIDE;
  if (number >= tiles) return;  // a whole warp; none waits for another
#pragma unroll
  for (int r = 0; r < SIDE; ++r) tile[place<LAYOUT>(r, lane)] = a[first + r * SIDE + lane];
  __syncwarp();
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    unsigned row[SIDE];
#pragma unroll
    for (int c = 0; c < SIDE; ++c) row[c] = tile[place<LAYOUT>(lane, c)];
    __syncwarp();  // all lanes have read before one overwrites
#pragma unroll
    for (int c = 0; c < SIDE; ++c) tile[place<LAYOUT>(c, lane)] = 5 * row[c] + 1;
    __syncwarp();
  }
#pragma unroll
  for (int r = 0; r < SIDE; ++r) out[first + r * SIDE + lane] = tile[place<LAYOUT>(r, lane)];
}

extern "C" __global__ void one_bank32(const unsigned* a, unsigned* out, int tiles, int passes) {
  turned<PLAIN>(a, out, tiles, passes);
}
extern "C" __global__ void padded32(const unsigned* a, unsigned* out, int tiles, int passes) {
  turned<PADDED>(a, out, tiles, passes);
}
extern "C" __global__ void swizzled32(const unsigned* a, unsigned* out, int tiles, int passes) {
  turned<SWIZZLED>(a, out, tiles, passes);
}

// Pieces of 16 bytes, eight a row: piece p of row r lies at p ^ r / 4 % 8. The memory serves a 16-byte access eight
// lanes at a time. Lane l has the squares of 4 x 4 words at rows 4 s, pieces l % 8, with s = l / 8 and l / 8 + 4:
// eight lanes read the eight pieces of one row, and write piece s of rows 4 (l % 8) + j, which lie at s ^ l % 8.
// Either way they are eight different pieces of the 128 bytes that hold all banks.
__device__ __forceinline__ int piece(int r, int p) { return r * (SIDE / 4) + (p ^ (r / 4 & 7)); }

extern "C" __global__ void wide32(const uint4* __restrict__ a, uint4* __restrict__ out, int tiles, int passes) {
  __shared__ uint4 memory[WARPS][SIDE * SIDE / 4];
  uint4* tile = memory[threadIdx.x / 32];
  const int lane = threadIdx.x % 32, p = lane % 8;
  const long long number = blockIdx.x * (long long)WARPS + threadIdx.x / 32, first = number * SIDE * SIDE / 4;
  if (number >= tiles) return;
#pragma unroll
  for (int k = 0; k < 8; ++k) tile[piece(4 * k + lane / 8, p)] = a[first + 32 * k + lane];
  __syncwarp();
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    uint4 rows[2][4];
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int j = 0; j < 4; ++j) rows[h][j] = tile[piece(4 * (lane / 8 + 4 * h) + j, p)];
    __syncwarp();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4 *q = rows[h], x = q[0], y = q[1], z = q[2], w = q[3];
      const int s = lane / 8 + 4 * h;
      tile[piece(4 * p, s)] = make_uint4(5 * x.x + 1, 5 * y.x + 1, 5 * z.x + 1, 5 * w.x + 1);
      tile[piece(4 * p + 1, s)] = make_uint4(5 * x.y + 1, 5 * y.y + 1, 5 * z.y + 1, 5 * w.y + 1);
      tile[piece(4 * p + 2, s)] = make_uint4(5 * x.z + 1, 5 * y.z + 1, 5 * z.z + 1, 5 * w.z + 1);
      tile[piece(4 * p + 3, s)] = make_uint4(5 * x.w + 1, 5 * y.w + 1, 5 * z.w + 1, 5 * w.w + 1);
    }
    __syncwarp();
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) out[first + 32 * k + lane] = tile[piece(4 * k + lane / 8, p)];
}
