// y = x W^T for few rows of x, bfloat16, with weights of four or eight bits that become bfloat16 in registers, exactly.
#include <cuda_bf16.h>

#define WARP 32
#define THREADS 128
#define QUAD 4     // lanes of a row of W: each has 16 bytes of a step
#define GROUP 128  // columns with a scale, of weights of four bits

enum Format { INT4, INT8, FP8 };

// 16 bytes that are read once: they do not displace x from L1.
__device__ __forceinline__ uint4 once(const uint4* from) {
  uint4 w;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "l"(from));
  return w;
}

// Bits below the exponent are units of the smallest bfloat16, 2^-133, and small exponents are powers of two from 2^-126 on:
// one product by 2^EXPONENT makes two weights of them, with no conversion. `less` is added to each.
template <int EXPONENT>
__device__ __forceinline__ unsigned int raised(unsigned int bits, unsigned int less = 0x80008000u) {
  const unsigned int up = (127 + EXPONENT) << 7;
  unsigned int pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(bits), "r"(up << 16 | up), "r"(less));
  return pair;
}
// Weights 0 and 4 of the eight of a word, less 8 and divided by 64; weights 1 and 5. -0.125 is 0xbe00.
__device__ __forceinline__ unsigned int even4(unsigned int word) { return raised<127>(word & 0x000f000fu, 0xbe00be00u); }
__device__ __forceinline__ unsigned int odd4(unsigned int word) { return raised<123>(word & 0x00f000f0u, 0xbe00be00u); }
// Bytes 0 and 2 of a word, and bytes 1 and 3. INT8: a sign and seven bits, divided by 64. FP8: a sign, four bits of exponent
// and three of mantissa, which lie in a bfloat16 as they are, but for 2^120.
template <Format FORMAT>
__device__ __forceinline__ unsigned int even8(unsigned int word) {
  const unsigned int sign = word << 8 & 0x80008000u;
  return FORMAT == INT8 ? raised<127>(sign | (word & 0x007f007fu)) : raised<120>(sign | (word << 4 & 0x07f007f0u));
}
template <Format FORMAT>
__device__ __forceinline__ unsigned int odd8(unsigned int word) {
  const unsigned int sign = word & 0x80008000u;
  return FORMAT == INT8 ? raised<127>(sign | (word >> 8 & 0x007f007fu)) : raised<120>(sign | (word >> 4 & 0x07f007f0u));
}

// d += A B of m16n8k16. a: two rows of two pairs; b: two pairs of a column.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned int a0, unsigned int a1, unsigned int a2,
                                         unsigned int a3, unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned int word_of(const uint4& w, int number) {
  return number == 0 ? w.x : number == 1 ? w.y : number == 2 ? w.z : w.w;
}

// A warp has 16 rows of W, which are the rows of products of tensor cores; the rows of x are their columns, COLUMNS of them:
// 1, which all eight columns then are, 8 or 32. A block keeps CHUNK elements of each row of x in shared memory.
// codes: INT4 [rows, columns / 8] words of eight neighbours; INT8, FP8 [rows, columns] bytes, of eight neighbours in the
// order 0 1 4 5 2 3 6 7. scales: [rows, columns / GROUP], or [rows]. x: [batch, columns]. y: [batch, rows].
template <Format FORMAT, int COLUMNS>
__global__ void __launch_bounds__(THREADS, COLUMNS == 32 ? 4 : 7)
    product(const uint4* __restrict__ codes, const float* __restrict__ scales, const __nv_bfloat16* __restrict__ x,
            __nv_bfloat16* __restrict__ y, int batch, int rows, int columns) {
  constexpr int EIGHTS = FORMAT == INT4 ? 4 : 2;  // of neighbours in the 16 bytes of a lane
  constexpr int STEP = QUAD * EIGHTS * 8;         // columns that the four lanes of a row have at a time
  constexpr int TILES = COLUMNS == 32 ? 4 : 1, LANES = COLUMNS == 1 ? QUAD : WARP;
  constexpr int DEEP = FORMAT == INT4 || COLUMNS == 32 ? 2 : 4;  // steps that are on their way
  constexpr int CHUNK = COLUMNS == 1 ? 8192 : 16384 / COLUMNS;
  __shared__ uint4 chunk[CHUNK / 8 * COLUMNS];
  const int lane = threadIdx.x % WARP, quad = lane / QUAD, part = lane % QUAD, steps = columns / STEP;
  const int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * 16 + quad;
  const uint4* from[2];
  const float* scale[2];
  float totals[TILES][4] = {}, s[DEEP][2];
  uint4 w[DEEP][2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const long long row = min(first + 8 * r, rows - 1);  // past the last: once more, and not stored
    from[r] = codes + row * (columns / (8 * EIGHTS)) + part;
    scale[r] = scales + row * (FORMAT == INT4 ? columns / GROUP : 1);
#pragma unroll
    for (int d = 0; d < DEEP; ++d) {
      w[d][r] = once(from[r] + min(d, steps - 1) * QUAD);
      if (FORMAT == INT4) s[d][r] = scale[r][min(d, steps - 1)];
    }
  }
  for (int start = 0; start < steps; start += CHUNK / STEP) {
    const int end = min(start + CHUNK / STEP, steps);
    __syncthreads();
    for (int at = threadIdx.x; at < CHUNK / 8 * COLUMNS; at += THREADS) {
      const int eight = at % (CHUNK / 8), m = at / (CHUNK / 8), column = start * STEP + 8 * eight;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (column < columns && m < batch) v = *reinterpret_cast<const uint4*>(x + (long long)m * columns + column);
      // Neighbours 0 and 4, 1 and 5, 2 and 6, 3 and 7, as the weights are in pairs.
      const uint4 pairs = make_uint4(__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632),
                                     __byte_perm(v.y, v.w, 0x5410), __byte_perm(v.y, v.w, 0x7632));
      const int step = eight / (QUAD * EIGHTS), of = eight / EIGHTS % QUAD, number = eight % EIGHTS;
      chunk[((step * EIGHTS + number) * TILES + m / 8) * LANES + (COLUMNS == 1 ? of : m % 8 * QUAD + of)] = pairs;
    }
    __syncthreads();
    for (int g = start; g < end; g += DEEP) {
#pragma unroll
      for (int d = 0; d < DEEP; ++d) {
        const uint4 *own = chunk + (g + d - start) * EIGHTS * TILES * LANES + lane % LANES, u = w[d][0], v = w[d][1];
        float sums[TILES][4] = {};
#pragma unroll
        for (int number = 0; number < EIGHTS; ++number) {
          unsigned int a[8];
          if (FORMAT == INT4) {
            const unsigned int p = word_of(u, number), q = word_of(v, number);
            a[0] = even4(p), a[1] = even4(q), a[2] = odd4(p), a[3] = odd4(q);
            a[4] = even4(p >> 8), a[5] = even4(q >> 8), a[6] = odd4(p >> 8), a[7] = odd4(q >> 8);
          } else {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const unsigned int p = word_of(u, 2 * number + half), q = word_of(v, 2 * number + half);
              a[4 * half] = even8<FORMAT>(p), a[4 * half + 1] = even8<FORMAT>(q);
              a[4 * half + 2] = odd8<FORMAT>(p), a[4 * half + 3] = odd8<FORMAT>(q);
            }
          }
#pragma unroll
          for (int t = 0; t < TILES; ++t) {
            const uint4 those = own[(number * TILES + t) * LANES];
            float(&into)[4] = FORMAT == INT4 ? sums[t] : totals[t];
            multiply(into, a[0], a[1], a[2], a[3], those.x, those.y);
            multiply(into, a[4], a[5], a[6], a[7], those.z, those.w);
          }
        }
        const int next = min(g + d + DEEP, steps - 1);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if (FORMAT == INT4) {
#pragma unroll
            for (int t = 0; t < TILES; ++t) {
              totals[t][2 * r] = fmaf(s[d][r], sums[t][2 * r], totals[t][2 * r]);
              totals[t][2 * r + 1] = fmaf(s[d][r], sums[t][2 * r + 1], totals[t][2 * r + 1]);
            }
            s[d][r] = scale[r][next];
          }
          w[d][r] = once(from[r] + next * QUAD);
        }
      }
    }
  }
  // A lane has two columns, of the rows `first` and `first` + 8.
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + 8 * r;
    if (row >= rows) continue;
    const float factor = (FORMAT == FP8 ? 1.0f : 64.0f) * (FORMAT == INT4 ? 1.0f : scale[r][0]);
#pragma unroll
    for (int t = 0; t < TILES; ++t)
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        const int m = 8 * t + 2 * part + column;
        if (m < batch) y[(long long)m * rows + row] = __float2bfloat16_rn(factor * totals[t][2 * r + column]);
      }
  }
}

// Weights of four bits as bfloat16 in memory: a thread has eight neighbours.
extern "C" __global__ void __launch_bounds__(THREADS)
    unpack(const unsigned int* __restrict__ codes, const float* __restrict__ scales, uint4* __restrict__ weights,
           long long words) {
  const long long at = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (at >= words) return;
  const unsigned int word = codes[at];
  const float scale = scales[at / (GROUP / 8)];
  unsigned int pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float low = (float)((int)(word >> 8 * i & 15) - 8), high = (float)((int)(word >> (8 * i + 4) & 15) - 8);
    const __nv_bfloat162 pair = __floats2bfloat162_rn(scale * low, scale * high);
    pairs[i] = *reinterpret_cast<const unsigned int*>(&pair);
  }
  weights[at] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}
