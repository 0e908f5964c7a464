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

// A load of one word, which the compiler may not merge: the words of a row of PLAIN are neighbours, and it would read
// four of them at a time, with another number of conflicts.
__device__ __forceinline__ unsigned word(const unsigned* at) { return *static_cast<const volatile unsigned*>(at); }

// MERGED: lane l reads row l in 16-byte loads.
template <Layout LAYOUT, bool MERGED = false>
__device__ __forceinline__ void turned(const unsigned* __restrict__ a, unsigned* __restrict__ out, int tiles,
                                       int passes) {
  __shared__ __align__(16) unsigned memory[WARPS][SIDE * (SIDE + 1)];
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
    for (int c = 0; c < SIDE; c += 4) {
      if (MERGED) {
        const uint4 four = *reinterpret_cast<const uint4*>(tile + place<LAYOUT>(lane, c));
        row[c] = four.x, row[c + 1] = four.y, row[c + 2] = four.z, row[c + 3] = four.w;
      } else {
#pragma unroll
        for (int k = c; k < c + 4; ++k) row[k] = word(tile + place<LAYOUT>(lane, k));
      }
    }
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
extern "C" __global__ void merged32(const unsigned* a, unsigned* out, int tiles, int passes) {
  turned<PLAIN, true>(a, out, tiles, passes);
}
extern "C" __global__ void padded32(const unsigned* a, unsigned* out, int tiles, int passes) {
  turned<PADDED>(a, out, tiles, passes);
}
extern "C" __global__ void swizzled32(const unsigned* a, unsigned* out, int tiles, int passes) {
  turned<SWIZZLED>(a, out, tiles, passes);
}
