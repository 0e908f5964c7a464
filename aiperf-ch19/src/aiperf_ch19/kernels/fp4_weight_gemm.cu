// y = W x: weights of four bits, e2m1, with a scale of e4m3 for 16 of them, become bfloat16 in registers, exactly.
#include <cuda_bf16.h>

#define WARP 32
#define THREADS 128
#define STEP 128    // columns that the four lanes of a row have at a time: 32 each, two of the scales
#define CHUNK 8192  // elements of x in shared memory at a time
#define DEEP 2      // steps that are on their way

// a * b of two bfloat16.
__device__ __forceinline__ unsigned int times(unsigned int a, unsigned int b) {
  unsigned int product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(0x80008000u));
  return product;
}
__device__ __forceinline__ unsigned int permuted(unsigned int a, unsigned int b, unsigned int order) {
  unsigned int bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(order));
  return bytes;
}
// Two of a scale. Its bits lie in a bfloat16 as they are, but for 2^120.
__device__ __forceinline__ unsigned int scale_pair(unsigned int bits) {
  const unsigned int up = (127 + 120) << 7;
  return times(bits << 4 | bits << 20, up << 16 | up);
}
// A weight as bfloat16, for the table.
__device__ unsigned int wide(unsigned int code) {
  const unsigned int exponent = code >> 1 & 3, mantissa = code & 1;
  const unsigned int size = exponent ? (126 + exponent) << 7 | mantissa << 6 : mantissa * (126 << 7);
  return (code & 8) << 12 | size;
}

// Four weights, in the low half of `codes`, as two pairs. In order of their codes their sizes are 0, 0.5, 1, 1.5, 2, 3, 4
// and 6, whose two bytes are two tables of eight: PRMT takes four of eight bytes.
struct InRegisters {
  __device__ __forceinline__ static void unpack(const unsigned int*, unsigned int codes, unsigned int (&pairs)[2]) {
    const unsigned int sizes = codes & 0x7777u;
    const unsigned int low = permuted(0xc0800000u, 0xc0804000u, sizes);
    // A code's sign bit makes eight copies of the top bit of the byte: 0xff in place of 0x80.
    const unsigned int signs = permuted(0x80808080u, 0x80808080u, codes) << 1 & 0x80808080u;
    const unsigned int high = permuted(0x3f3f3f00u, 0x40404040u, sizes) | signs;
    pairs[0] = permuted(low, high, 0x5140), pairs[1] = permuted(low, high, 0x7362);
  }
};
// A table of all 256 pairs in shared memory.
struct InTable {
  __device__ __forceinline__ static void unpack(const unsigned int* table, unsigned int codes, unsigned int (&pairs)[2]) {
    pairs[0] = table[codes & 0xff], pairs[1] = table[codes >> 8 & 0xff];
  }
};

// d += A B of m16n8k16. a: two rows of two pairs; b: two pairs of a column.
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A warp has 16 rows of W, which are the rows of products of tensor cores; all their columns are x. Columns of a product
// are of any order that both operands share: a lane's are four neighbours, in the words that it loads.
// codes: [rows, columns / 32], of neighbours in four bits, the first in the lowest. scales: [rows, columns / 32] pairs.
template <typename Form>
__device__ __forceinline__ void product(const uint4* __restrict__ codes, const unsigned short* __restrict__ scales,
                                        const uint4* __restrict__ x, __nv_bfloat16* __restrict__ y, int rows,
                                        int columns, const unsigned int* table) {
  __shared__ uint4 chunk[CHUNK / 32 * 5];  // 32 elements in five words of 16 bytes: four lanes have 16 different banks
  const int lane = threadIdx.x % WARP, quad = lane / 4, part = lane % 4, steps = columns / STEP;
  const int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * 16 + quad;
  long long from[2];
  float total[4] = {};
  uint4 w[DEEP][2];
  unsigned int s[DEEP][2];
  for (int r = 0; r < 2; ++r) {
    from[r] = min(first + 8 * r, rows - 1) * (long long)(columns / 32) + part;  // past the last: once more, not stored
#pragma unroll
    for (int d = 0; d < DEEP; ++d) {
      const long long at = from[r] + min(d, steps - 1) * 4;
      w[d][r] = __ldcs(codes + at), s[d][r] = __ldg(scales + at);
    }
  }
  for (int start = 0; start < steps; start += CHUNK / STEP) {
    __syncthreads();
    for (int at = threadIdx.x; at < CHUNK / 8; at += THREADS) {
      const int eight = start * (STEP / 8) + at;
      chunk[at / 4 * 5 + at % 4] = 8 * eight < columns ? x[eight] : make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    for (int g = start; g < min(start + CHUNK / STEP, steps); g += DEEP) {
#pragma unroll
      for (int d = 0; d < DEEP; ++d) {
        const uint4 both[2] = {w[d][0], w[d][1]};
        const unsigned int of_both[2] = {s[d][0], s[d][1]};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const long long at = from[r] + min(g + d + DEEP, steps - 1) * 4;
          w[d][r] = __ldcs(codes + at), s[d][r] = __ldg(scales + at);
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const uint4 own = chunk[((g + d - start) * 4 + part) * 5 + n];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            unsigned int a[4];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const unsigned int word = n == 0 ? both[r].x : n == 1 ? both[r].y : n == 2 ? both[r].z : both[r].w;
              const unsigned int scale = scale_pair(of_both[r] >> 8 * (n / 2) & 0xff);
              unsigned int pairs[2];
              Form::unpack(table, word >> 16 * half, pairs);
              a[r] = times(pairs[0], scale), a[r + 2] = times(pairs[1], scale);
            }
            multiply(total, a, half ? own.z : own.x, half ? own.w : own.y);
          }
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (part == 0 && first + 8 * r < rows) y[first + 8 * r] = __float2bfloat16_rn(total[2 * r]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 7)
    prmt(const uint4* __restrict__ codes, const unsigned short* __restrict__ scales, const uint4* __restrict__ x,
         __nv_bfloat16* __restrict__ y, int rows, int columns) {
  product<InRegisters>(codes, scales, x, y, rows, columns, nullptr);
}

extern "C" __global__ void __launch_bounds__(THREADS, 7)
    lut(const uint4* __restrict__ codes, const unsigned short* __restrict__ scales, const uint4* __restrict__ x,
        __nv_bfloat16* __restrict__ y, int rows, int columns) {
  __shared__ unsigned int table[256];
  for (int at = threadIdx.x; at < 256; at += THREADS) table[at] = wide(at >> 4) << 16 | wide(at & 15);
  product<InTable>(codes, scales, x, y, rows, columns, table);  // its first barrier is also the table's
}
