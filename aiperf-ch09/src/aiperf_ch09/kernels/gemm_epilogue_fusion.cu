// out = gelu(Y) + residual, or silu(G) * U + residual for the halves G and U of Y, with Y = X W^T + bias, all in bfloat16:
// in a pass over Y behind the product, and from the sums of the product by the schedule of tensor_core_gemm_wgmma.cu.
#include "wgmma_product.cuh"

#define BN 256
#define BK 64
#define STAGES 4
#define THREADS 256  // of the pass
#define HIDDEN 128   // columns of the gate in a tile, and then as many of U

// The emulator of tests has a function of this name.
#ifndef TENSOR_CORE_INSTRUCTIONS
__device__ __forceinline__ float tanh_approximate(float v) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(v));
  return result;
}
#endif
__device__ __forceinline__ float half(unsigned int pair, int i) {
  return __uint_as_float(i ? pair & 0xffff0000u : pair << 16);
}
// v / (1 + exp(-2 u)) is v / 2 (1 + tanh(u)): one special function in place of two.
__device__ __forceinline__ float gated_by(float v, float u) { return fmaf(0.5f * v, tanh_approximate(u), 0.5f * v); }
__device__ __forceinline__ float gelu(float v) { return gated_by(v, v * fmaf(0.035677408f, v * v, 0.79788456f)); }
__device__ __forceinline__ float silu(float v) { return gated_by(v, 0.5f * v); }

union Piece {
  uint4 all;
  unsigned int pairs[4];
};
__device__ __forceinline__ Piece piece_of(const Half* from) {
  Piece piece;
  piece.all = *reinterpret_cast<const uint4*>(from);
  return piece;
}
// blockIdx.x is the row, blockIdx.y the part of it. A thread has eight columns.
template <bool GATED>
__device__ __forceinline__ void pass(Half* out, const Half* y, const Half* bias, const Half* residual, int columns) {
  const int c = 8 * (blockIdx.y * THREADS + threadIdx.x);
  if (c >= columns) return;
  const long long row = blockIdx.x;
  const Half* from = y + row * columns * (GATED ? 2 : 1) + c;
  const Piece a = piece_of(from), a_bias = piece_of(bias + c), added = piece_of(residual + row * columns + c);
  const Piece b = piece_of(from + (GATED ? columns : 0)), b_bias = piece_of(bias + c + (GATED ? columns : 0));
  Piece result;
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    float v[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float first = half(a.pairs[p], i) + half(a_bias.pairs[p], i);
      const float second = half(b.pairs[p], i) + half(b_bias.pairs[p], i);
      v[i] = (GATED ? silu(first) * second : gelu(first)) + half(added.pairs[p], i);
    }
    result.pairs[p] = pack_bf16(v[0], v[1]);
  }
  *reinterpret_cast<uint4*>(out + row * columns + c) = result.all;
}

// Starts the products of a step.
__device__ __forceinline__ void multiply(float (&d)[128], const Half* a, const Half* b, bool first) {
  registers_fence(d);
  product_fence();
#pragma unroll
  for (int k = 0; k < BK; k += 16) multiply_64x256x16(d, operand(a + k), operand(b + k), k > 0 || !first);
  product_commit();
  registers_fence(d);
}
// The pair at `from`, if it lies before the end of a row that goes on for `left` elements.
__device__ __forceinline__ unsigned int pair_at(const Half* from, int at, int left) {
  return at < left ? *reinterpret_cast<const unsigned int*>(from + at) : 0;
}

// `n` are the rows of W and `columns` those of the result. With a gate, W and bias have groups of 128 rows of the gate and
// the same of U, so that a thread has the sums of both. A thread asks for the residual of 64 columns before it needs it,
// and for that of the first 64 AHEAD of the end of the last products.
template <bool GATED, bool AHEAD>
__device__ __forceinline__ void in_epilogue(const CUtensorMap* x_map, const CUtensorMap* w_map,
                                            const CUtensorMap* out_map, const Half* bias, const Half* residual, int m,
                                            int n, int columns, int k) {
  constexpr int N = GATED ? 64 : 128;  // results of a thread
  float d[128];
  unsigned int added[2][16];
  const int last = parts(k, BK) - 1, lane_row = threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4;
  const int lane_column = threadIdx.x % 4 * 2;
  auto load = [&](int piece, int row, int column) {
    const int r = row + lane_row, c = (GATED ? column / 2 : column) + lane_column;
    // Rows beyond the last have its residual, and are not stored.
    const Half* upper = residual + min(r, m - 1) * (long long)columns + c;
    const Half* lower = residual + min(r + 8, m - 1) * (long long)columns + c;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      added[piece % 2][2 * j] = pair_at(upper, 64 * piece + 8 * j, columns - c);
      added[piece % 2][2 * j + 1] = pair_at(lower, 64 * piece + 8 * j, columns - c);
    }
  };
  by_roles<Half, BN, 2, STAGES, 1>(
      x_map, w_map, m, n, k,
      [&](const Half* a, const Half* b, int step, int row, int column) {
        multiply(d, a, b, step == 0);
        if (AHEAD && step == last) load(0, row, column);
        product_wait<1>();
      },
      [&](int row, int column) {
        registers_fence(d);
        if (!AHEAD) load(0, row, column);
#pragma unroll
        for (int piece = 0; piece < N / 32; ++piece) {
          if (piece + 1 < N / 32) load(piece + 1, row, column);
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int at = 64 * piece + 8 * j, c = column + lane_column;
            const unsigned int own = pair_at(bias + c, at, n - c);
            const unsigned int other = GATED ? pair_at(bias + c, at + HIDDEN, n - c) : 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              float& v = d[32 * piece + 4 * j + i];
              const float y = v + half(own, i % 2), plus = half(added[piece % 2][2 * j + i / 2], i % 2);
              v = plus + (GATED ? silu(y) * (d[(32 * piece + 4 * j + i + N) % 128] + half(other, i % 2)) : gelu(y));
            }
          }
        }
        store_by_engine(out_map, stages + STAGES * stage_bytes(BN) / 2 + (threadIdx.x / WARPGROUP - 1) * 2 * PIECE, row,
                        GATED ? column / 2 : column, reinterpret_cast<const float(&)[N]>(d));
      });
}

extern "C" {
__global__ void __launch_bounds__(THREADS)
    pass_gelu(Half* out, const Half* y, const Half* bias, const Half* residual, int columns) {
  pass<false>(out, y, bias, residual, columns);
}
__global__ void __launch_bounds__(THREADS)
    pass_swiglu(Half* out, const Half* y, const Half* bias, const Half* residual, int columns) {
  pass<true>(out, y, bias, residual, columns);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    fused_gelu(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
               const __grid_constant__ CUtensorMap out_map, const Half* bias, const Half* residual, int m, int n,
               int columns, int k) {
  in_epilogue<false, false>(&x_map, &w_map, &out_map, bias, residual, m, n, columns, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    fused_swiglu(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                 const __grid_constant__ CUtensorMap out_map, const Half* bias, const Half* residual, int m, int n,
                 int columns, int k) {
  in_epilogue<true, false>(&x_map, &w_map, &out_map, bias, residual, m, n, columns, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    residual_ahead_gelu(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                        const __grid_constant__ CUtensorMap out_map, const Half* bias, const Half* residual, int m,
                        int n, int columns, int k) {
  in_epilogue<false, true>(&x_map, &w_map, &out_map, bias, residual, m, n, columns, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    residual_ahead_swiglu(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                          const __grid_constant__ CUtensorMap out_map, const Half* bias, const Half* residual, int m,
                          int n, int columns, int k) {
  in_epilogue<true, true>(&x_map, &w_map, &out_map, bias, residual, m, n, columns, k);
}
}
