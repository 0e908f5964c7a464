// y = W x with W of packed weights, (q - 8) * scale, where q has four bits; a scale serves 128 weights of a row.
#include <cuda_bf16.h>

#define WARP 32
#define THREADS 256
#define GROUP 128

__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
  return total;
}
// The two bfloat16 of a word as floats.
__device__ __forceinline__ float low(unsigned int pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(unsigned int pair) { return __uint_as_float(pair & 0xffff0000u); }

// The product with weights that were unpacked to bfloat16 before: a warp a row, eight weights a lane and load.
extern "C" __global__ void __launch_bounds__(THREADS)
    product(const __nv_bfloat16* __restrict__ weights, const float* __restrict__ x, float* __restrict__ y, int rows,
            int columns) {
  const int row = (blockIdx.x * THREADS + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
  if (row >= rows) return;
  const uint4* from = reinterpret_cast<const uint4*>(weights + row * (long long)columns);
  float total = 0;
#pragma unroll 4
  for (int at = lane; at < columns / 8; at += WARP) {
    const uint4 w = from[at];
    const float4 a = reinterpret_cast<const float4*>(x)[2 * at], b = reinterpret_cast<const float4*>(x)[2 * at + 1];
    total += low(w.x) * a.x + high(w.x) * a.y + low(w.y) * a.z + high(w.y) * a.w;
    total += low(w.z) * b.x + high(w.z) * b.y + low(w.w) * b.z + high(w.w) * b.w;
  }
  total = warp_sum(total);
  if (lane == 0) y[row] = total;
}

// The same with packed weights, eight a lane and load. A weight in the last bits of 128.0 (0x4300) makes it 128 + q, with
// no conversion; the sum of x times 136 is taken away once for eight weights.
extern "C" __global__ void __launch_bounds__(THREADS)
    fused(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
          const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  const int row = (blockIdx.x * THREADS + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
  if (row >= rows) return;
  const unsigned int* from = reinterpret_cast<const unsigned int*>(packed + row * (long long)(columns / 2));
  const __nv_bfloat16* scale = scales + row * (long long)(columns / GROUP);
  float total = 0;
#pragma unroll 4
  for (int at = lane; at < columns / 8; at += WARP) {
    const unsigned int word = from[at];
    const float4 a = reinterpret_cast<const float4*>(x)[2 * at], b = reinterpret_cast<const float4*>(x)[2 * at + 1];
    const float eight_x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    float sum = -136.0f * (((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w)));
#pragma unroll
    for (int byte = 0; byte < 4; ++byte) {
      const unsigned int pair = (__byte_perm(word, word >> 4, 0x4400 + 0x1111 * byte) & 0x000f000fu) | 0x43004300u;
      sum = fmaf(low(pair), eight_x[2 * byte], sum);
      sum = fmaf(high(pair), eight_x[2 * byte + 1], sum);
    }
    total = fmaf(__bfloat162float(scale[at / (GROUP / 8)]), sum, total);
  }
  total = warp_sum(total);
  if (lane == 0) y[row] = total;
}

// 16 bytes that are read once: they do not displace x from L1.
__device__ __forceinline__ uint4 stream(const uint4* from) {
  uint4 w;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "l"(from));
  return w;
}

// Bits below the exponent are a number of units of the smallest float, 2^-149: four of them at place P are a weight after
// one product, with no conversion. All is exact. The result is (weight - 8) / 2^23.
template <int P>
__device__ __forceinline__ float weight(unsigned int word) {
  return fmaf(__uint_as_float(word & 15u << P), __uint_as_float((127 + 126 - P) << 23), -8.0f / (1 << 23));
}
__device__ __forceinline__ float eight_products(unsigned int word, float4 a, float4 b, float sum) {
  sum = fmaf(weight<0>(word), a.x, sum);
  sum = fmaf(weight<4>(word), a.y, sum);
  sum = fmaf(weight<8>(word), a.z, sum);
  sum = fmaf(weight<12>(word), a.w, sum);
  sum = fmaf(weight<16>(word), b.x, sum);
  sum = fmaf(weight<20>(word), b.y, sum);
  sum = fmaf(weight<0>(word >> 24), b.z, sum);
  return fmaf(weight<4>(word >> 24), b.w, sum);
}

#define QUAD 4           // lanes of a row: each has 32 weights of a group in one load
#define CHUNK 8192       // columns of x in shared memory
#define PADDED (32 + 4)  // floats of x of a lane: neighbours in other banks

// A warp has 8 * ROWS rows: four lanes one row, of which each loads 16 bytes of a group at a time, of DEEP groups before
// it uses the first. With STAGED, a block keeps CHUNK elements of x in shared memory.
template <int ROWS, int DEEP, bool STAGED>
__global__ void __launch_bounds__(THREADS)
    wide(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
         const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  __shared__ __align__(16) float chunk[STAGED ? CHUNK / 32 * PADDED : 4];
  const int lane = threadIdx.x % WARP, quad = lane / QUAD, part = lane % QUAD, groups = columns / GROUP;
  const int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * 8 * ROWS + quad;
  const uint4* from[ROWS];
  const __nv_bfloat16* scale[ROWS];
  float totals[ROWS] = {0};
  uint4 w[DEEP][ROWS];
  __nv_bfloat16 s[DEEP][ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = min(first + 8 * r, rows - 1);  // past the last: once more, and not stored
    from[r] = reinterpret_cast<const uint4*>(packed + row * (columns / 2)) + part;
    scale[r] = scales + row * groups;
#pragma unroll
    for (int d = 0; d < DEEP; ++d) {
      w[d][r] = stream(from[r] + min(d, groups - 1) * QUAD);
      s[d][r] = scale[r][min(d, groups - 1)];
    }
  }
  for (int start = 0; start < groups; start += CHUNK / GROUP) {
    const int end = min(start + CHUNK / GROUP, groups);
    if (STAGED) {
      __syncthreads();
      for (int at = threadIdx.x; at < CHUNK / 4; at += THREADS) {
        const int column = start * GROUP + 4 * at;
        *reinterpret_cast<float4*>(chunk + at / 8 * PADDED + at % 8 * 4) =
            column < columns ? *reinterpret_cast<const float4*>(x + column) : make_float4(0, 0, 0, 0);
      }
      __syncthreads();
    }
    for (int g = start; g < end; g += DEEP) {
#pragma unroll
      for (int d = 0; d < DEEP; ++d) {
        const float4* own = reinterpret_cast<const float4*>(
            STAGED ? chunk + ((g + d - start) * QUAD + part) * PADDED : x + min(g + d, groups - 1) * GROUP + part * 32);
        const int next = min(g + d + DEEP, groups - 1);
        float sums[ROWS] = {0};
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          const float4 a = own[2 * word], b = own[2 * word + 1];
#pragma unroll
          for (int r = 0; r < ROWS; ++r) {
            const uint4 all = w[d][r];
            sums[r] = eight_products(word == 0 ? all.x : word == 1 ? all.y : word == 2 ? all.z : all.w, a, b, sums[r]);
          }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          const float factor = STAGED || g + d < groups ? __bfloat162float(s[d][r]) : 0.0f;
          totals[r] = fmaf(factor, sums[r], totals[r]);
          w[d][r] = stream(from[r] + next * QUAD);
          s[d][r] = scale[r][next];
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    float total = totals[r];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    if (part == 0 && first + 8 * r < rows) y[first + 8 * r] = (1 << 23) * total;
  }
}

// The same trick with bfloat16, whose unit is 2^-133: two weights, less 8 and divided by 64, exactly. `bits` has a weight
// in each half, of FACTOR units.
template <int FACTOR>
__device__ __forceinline__ unsigned int pair_of(unsigned int bits) {
  const unsigned int up = (FACTOR == 1 ? 127 + 127 : 127 + 123) << 7;
  unsigned int pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(bits), "r"(up << 16 | up), "r"(0xbe00be00u));
  return pair;
}
// d += A B of m16n8k16. a: two rows of two pairs; b: two pairs of a column.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned int a0, unsigned int a1, unsigned int a2,
                                         unsigned int a3, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned int rounded_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned int*>(&pair);
}

#define PARTS 3  // bfloat16 whose sum is a float

template <int DEEP>
__global__ void __launch_bounds__(THREADS)
    tensor_cores(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
                 const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  __shared__ uint4 chunk[CHUNK / 32][4][PARTS];
  const int lane = threadIdx.x % WARP, quad = lane / QUAD, part = lane % QUAD, groups = columns / GROUP;
  const int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * 16 + quad;
  const uint4* from[2];
  const __nv_bfloat16* scale[2];
  float totals[4] = {0};
  uint4 w[DEEP][2];
  __nv_bfloat16 s[DEEP][2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const long long row = min(first + 8 * r, rows - 1);  // past the last: once more, and not stored
    from[r] = reinterpret_cast<const uint4*>(packed + row * (columns / 2)) + part;
    scale[r] = scales + row * groups;
#pragma unroll
    for (int d = 0; d < DEEP; ++d) {
      w[d][r] = stream(from[r] + min(d, groups - 1) * QUAD);
      s[d][r] = scale[r][min(d, groups - 1)];
    }
  }
  for (int start = 0; start < groups; start += CHUNK / GROUP) {
    const int end = min(start + CHUNK / GROUP, groups);
    __syncthreads();
    for (int at = threadIdx.x; at < CHUNK / 8; at += THREADS) {
      const int column = start * GROUP + 8 * at;
      float4 a = make_float4(0, 0, 0, 0), b = a;
      if (column < columns)
        a = reinterpret_cast<const float4*>(x + column)[0], b = reinterpret_cast<const float4*>(x + column)[1];
#pragma unroll
      for (int p = 0; p < PARTS; ++p) {
        const unsigned int pairs[4] = {rounded_pair(a.x, b.x), rounded_pair(a.y, b.y), rounded_pair(a.z, b.z),
                                       rounded_pair(a.w, b.w)};
        chunk[at / 4][at % 4][p] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        a = make_float4(a.x - low(pairs[0]), a.y - low(pairs[1]), a.z - low(pairs[2]), a.w - low(pairs[3]));
        b = make_float4(b.x - high(pairs[0]), b.y - high(pairs[1]), b.z - high(pairs[2]), b.w - high(pairs[3]));
      }
    }
    __syncthreads();
    for (int g = start; g < end; g += DEEP) {
#pragma unroll
      for (int d = 0; d < DEEP; ++d) {
        const int next = min(g + d + DEEP, groups - 1);
        float sums[4] = {0};
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          const uint4 own = chunk[(g + d - start) * QUAD + part][word][quad % PARTS];
          const uint4 &u = w[d][0], &v = w[d][1];
          const unsigned int p = word == 0 ? u.x : word == 1 ? u.y : word == 2 ? u.z : u.w;
          const unsigned int q = word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
          multiply(sums, pair_of<1>(p & 0x000f000f), pair_of<1>(q & 0x000f000f), pair_of<16>(p & 0x00f000f0),
                   pair_of<16>(q & 0x00f000f0), own.x, own.y);
          multiply(sums, pair_of<1>(p >> 8 & 0x000f000f), pair_of<1>(q >> 8 & 0x000f000f),
                   pair_of<16>(p >> 8 & 0x00f000f0), pair_of<16>(q >> 8 & 0x00f000f0), own.z, own.w);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float factor = __bfloat162float(s[d][r]);
          totals[2 * r] = fmaf(factor, sums[2 * r], totals[2 * r]);
          totals[2 * r + 1] = fmaf(factor, sums[2 * r + 1], totals[2 * r + 1]);
          w[d][r] = stream(from[r] + next * QUAD);
          s[d][r] = scale[r][next];
        }
      }
    }
  }
  // Lane 0 of a row has two parts of x, lane 1 the third.
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float third = __shfl_down_sync(~0u, totals[2 * r], 1);
    if (part == 0 && first + 8 * r < rows) y[first + 8 * r] = 64 * (totals[2 * r] + totals[2 * r + 1] + third);
  }
}
