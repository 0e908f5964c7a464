// C = A B^T for operands in e4m3 with scales and results in bfloat16, by the schedule of tensor_core_gemm_wgmma.cu: a step of
// 128 bytes is 128 of k. The kernels differ in where the scales come in.
#include "wgmma_product.cuh"

typedef unsigned char Byte;

#define BK 128         // elements of a step, and of a block that has a scale
#define STAGES 4       // with tiles of 256 columns
#define MANY_STAGES 6  // with tiles of 128

// Starts the products of a step: 64 rows of A by as many of B as `d` has columns, 32 of k at a time.
template <int N>
__device__ __forceinline__ void multiply(float (&d)[N], const Byte* a, const Byte* b, bool first) {
  registers_fence(d);
  product_fence();
#pragma unroll
  for (int k = 0; k < BK; k += 32) multiply_e4m3(d, operand(a + k), operand(b + k), k > 0 || !first);
  product_commit();
  registers_fence(d);
}

// The first of the two rows of a thread's results in a tile, the other of which is 8 further, and its first column.
__device__ __forceinline__ int row_of_thread() { return threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4; }
__device__ __forceinline__ int column_of_thread() { return threadIdx.x % 4 * 2; }
__device__ __forceinline__ float scale_at(const float* scales, int i, int count) { return i < count ? scales[i] : 0; }

// The place in shared memory from which a warpgroup's results are stored.
__device__ __forceinline__ Half* results(int stages_bytes) {
  return stages + stages_bytes / (int)sizeof(Half) + (threadIdx.x / WARPGROUP - 1) * 2 * PIECE;
}

// Sums of unscaled products; each sum is scaled once, by the scales of the matrices or of its row and its column.
template <bool BY_ROWS>
__device__ __forceinline__ void scaled_at_the_end(const CUtensorMap* a_map, const CUtensorMap* b_map,
                                                  const CUtensorMap* out_map, const float* a_scales,
                                                  const float* b_scales, int m, int n, int k) {
  float d[128];
  by_roles<Byte, 256, 2, STAGES, 1>(
      a_map, b_map, m, n, k,
      [&](const Byte* a, const Byte* b, int step, int, int) {
        multiply(d, a, b, step == 0);
        product_wait<1>();
      },
      [&](int row, int column) {
        registers_fence(d);
        const int r = row + row_of_thread(), c = column + column_of_thread();
        const float upper = scale_at(a_scales, BY_ROWS ? r : 0, m), lower = scale_at(a_scales, BY_ROWS ? r + 8 : 0, m);
#pragma unroll
        for (int j = 0; j < 32; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float right = scale_at(b_scales, BY_ROWS ? c + 8 * j + i : 0, n);
            d[4 * j + i] *= upper * right, d[4 * j + 2 + i] *= lower * right;
          }
        store_by_engine(out_map, results(STAGES * stage_bytes(256)), row, column, d);
      });
}

extern "C" {
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    per_tensor(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
               const __grid_constant__ CUtensorMap out_map, const float* a_scales, const float* b_scales, int m, int n,
               int k) {
  scaled_at_the_end<false>(&a_map, &b_map, &out_map, a_scales, b_scales, m, n, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    per_row(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
            const __grid_constant__ CUtensorMap out_map, const float* a_scales, const float* b_scales, int m, int n,
            int k) {
  scaled_at_the_end<true>(&a_map, &b_map, &out_map, a_scales, b_scales, m, n, k);
}

// A scale for 128 of k in a row of A (a_scales is blocks x m) and for 128 x 128 of B (b_scales is n / 128 x blocks). The
// products of a step are sums of their own, which multiply-adds take over with the scales, so that a thread has two sets
// of sums and tiles have half as many columns.
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    per_block(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
              const __grid_constant__ CUtensorMap out_map, const float* a_scales, const float* b_scales, int m, int n,
              int k) {
  float d[64] = {}, part[64];
  by_roles<Byte, 128, 2, MANY_STAGES, 0>(
      &a_map, &b_map, m, n, k,
      [&](const Byte* a, const Byte* b, int step, int row, int column) {
        const int r = row + row_of_thread();
        multiply(part, a, b, true);
        const float right = b_scales[column / 128 * (long long)parts(k, BK) + step];
        const float* left = a_scales + step * (long long)m;
        const float upper = scale_at(left, r, m) * right, lower = scale_at(left, r + 8, m) * right;
        product_wait<0>();
        registers_fence(part);
#pragma unroll
        for (int i = 0; i < 64; ++i) d[i] = fmaf(part[i], i / 2 % 2 ? lower : upper, d[i]);
      },
      [&](int row, int column) {
        store_by_engine(&out_map, results(MANY_STAGES * stage_bytes(128)), row, column, d);
#pragma unroll
        for (int i = 0; i < 64; ++i) d[i] = 0;
      });
}
}
