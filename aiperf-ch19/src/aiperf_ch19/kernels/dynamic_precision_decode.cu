// y = W x with weights of four bits, (q - 8) * scale; a scale serves a group of 128 weights of a row.
#include <cuda_bf16.h>

#define WARP 32
#define WARPS 8   // that share 16 rows of W: each has every eighth group
#define GROUP 128
#define QUAD 4    // lanes of a row: each has 32 weights of a group, in one load
#define DEEP 4    // groups of a warp that are on their way

// Two weights of a word, less 8 and divided by 64, as bfloat16. Bits below the exponent are units of the smallest
// bfloat16, 2^-133: one product makes them a number, exactly. SHIFT is their place in each half of `bits`, 0 or 4.
template <int SHIFT>
__device__ __forceinline__ unsigned int pair_of(unsigned int bits) {
  const unsigned int up = (127 + 127 - SHIFT) << 7;
  unsigned int pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(pair)
      : "r"(bits & 0x000f000fu << SHIFT), "r"(up << 16 | up), "r"(0xbe00be00u));
  return pair;
}
// d += A B of m16n8k16: two rows of two pairs, and two pairs of x, which all eight columns of B have.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned int a0, unsigned int a1, unsigned int a2,
                                         unsigned int a3, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 16 bytes that are read once: they do not displace x from L1.
__device__ __forceinline__ uint4 once(const uint4* from) {
  uint4 w;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "l"(from));
  return w;
}

// codes: [rows, groups, 16] words of eight neighbours, of which the even ones are in the lower half. x: [groups * GROUP].
// y: [rows], with `stream` [rows] added where there is one. A block takes 16 rows after the other, and the weights of the
// next ones are on their way while the warps add their sums.
extern "C" __global__ void __launch_bounds__(WARPS* WARP, 3)
    product(const uint4* __restrict__ codes, const float* __restrict__ scales, const __nv_bfloat16* __restrict__ x,
            const __nv_bfloat16* __restrict__ stream, __nv_bfloat16* __restrict__ y, int rows, int groups) {
  __shared__ float parts[2][WARPS][16];
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, quad = lane / QUAD, part = lane % QUAD;
  const int steps = (groups + WARPS - 1) / WARPS, tiles = (rows + 15) / 16;
  uint4 w[DEEP][2];
  float s[DEEP][2], totals[2] = {0};
  int next_tile = blockIdx.x, next_step = 0;  // of the next load
  const auto load = [&](uint4(&words)[2], float(&factors)[2]) {
    const int group = warp + next_step * WARPS;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const long long row = min(next_tile * 16 + quad + 8 * r, rows - 1);  // past the last: once more, and not stored
      words[r] = once(codes + (row * groups + min(group, groups - 1)) * QUAD + part);
      factors[r] = group < groups ? scales[row * groups + group] : 0.0f;
    }
    if (++next_step == steps) next_step = 0, next_tile = min(next_tile + (int)gridDim.x, tiles);
  };
#pragma unroll
  for (int d = 0; d < DEEP; ++d) load(w[d], s[d]);
  int tile = blockIdx.x, step = 0, half = 0;
  while (tile < tiles) {
#pragma unroll
    for (int d = 0; d < DEEP; ++d) {
      const int group = min(warp + step * WARPS, groups - 1);
      float sums[4] = {0};
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const uint4 own = reinterpret_cast<const uint4*>(x)[(group * QUAD + part) * 4 + word];
        const uint4 &u = w[d][0], &v = w[d][1];
        const unsigned int p = word == 0 ? u.x : word == 1 ? u.y : word == 2 ? u.z : u.w;
        const unsigned int q = word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
        multiply(sums, pair_of<0>(p), pair_of<0>(q), pair_of<4>(p), pair_of<4>(q), own.x, own.y);
        multiply(sums, pair_of<0>(p >> 8), pair_of<0>(q >> 8), pair_of<4>(p >> 8), pair_of<4>(q >> 8), own.z, own.w);
      }
      totals[0] = fmaf(s[d][0], sums[0], totals[0]);
      totals[1] = fmaf(s[d][1], sums[2], totals[1]);
      load(w[d], s[d]);
      if (++step < steps || tile >= tiles) continue;
      if (part == 0) parts[half][warp][quad] = totals[0], parts[half][warp][quad + 8] = totals[1];
      __syncthreads();
      const int row = tile * 16 + threadIdx.x;
      if (threadIdx.x < 16 && row < rows) {
        float total = 0;
#pragma unroll
        for (int one = 0; one < WARPS; ++one) total += parts[half][one][threadIdx.x];
        y[row] = __float2bfloat16_rn(64 * total + (stream ? __bfloat162float(stream[row]) : 0.0f));
      }
      totals[0] = totals[1] = 0, step = 0, half ^= 1, tile += gridDim.x;
    }
  }
}
