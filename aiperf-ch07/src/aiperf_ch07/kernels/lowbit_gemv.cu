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

// The same with packed weights, of ROWS rows a warp. A weight in the last bits of 128.0 (0x4300) makes it 128 + q, with
// no conversion; the sum of x times 136 is taken away once for eight weights.
template <int ROWS>
__device__ __forceinline__ void packed_product(const unsigned char* __restrict__ packed,
                                               const __nv_bfloat16* __restrict__ scales, const float* __restrict__ x,
                                               float* __restrict__ y, int rows, int columns) {
  const int first = (blockIdx.x * THREADS + threadIdx.x) / WARP * ROWS, lane = threadIdx.x % WARP;
  if (first >= rows) return;
  float totals[ROWS] = {0};
#pragma unroll 4
  for (int at = lane; at < columns / 8; at += WARP) {
    const float4 a = reinterpret_cast<const float4*>(x)[2 * at], b = reinterpret_cast<const float4*>(x)[2 * at + 1];
    const float eight_x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    const float sum_x = ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const long long row = min(first + r, rows - 1);  // the last rows once more, whose sums are not stored
      const unsigned int word = reinterpret_cast<const unsigned int*>(packed)[row * (columns / 8) + at];
      const float scale = __bfloat162float(scales[row * (columns / GROUP) + at / (GROUP / 8)]);
      float sum = -136.0f * sum_x;
#pragma unroll
      for (int byte = 0; byte < 4; ++byte) {
        const unsigned int pair = (__byte_perm(word, word >> 4, 0x4400 + 0x1111 * byte) & 0x000f000fu) | 0x43004300u;
        sum = fmaf(low(pair), eight_x[2 * byte], sum);
        sum = fmaf(high(pair), eight_x[2 * byte + 1], sum);
      }
      totals[r] = fmaf(scale, sum, totals[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float total = warp_sum(totals[r]);
    if (lane == 0 && first + r < rows) y[first + r] = total;
  }
}
extern "C" __global__ void __launch_bounds__(THREADS)
    fused(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
          const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  packed_product<1>(packed, scales, x, y, rows, columns);
}
extern "C" __global__ void __launch_bounds__(THREADS)
    four_rows(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
              const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  packed_product<4>(packed, scales, x, y, rows, columns);
}
