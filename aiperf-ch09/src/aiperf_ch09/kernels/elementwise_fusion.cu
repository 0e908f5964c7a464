// out = gelu(x + bias) * scale + residual, cut off at -limit and limit, in bfloat16. Blocks of 256 threads: blockIdx.x is
// the row, blockIdx.y the part of it.
#include <cuda_bf16.h>

#define PIECE 8  // elements of 16 bytes

typedef __nv_bfloat16 Half;

// v / 2 (1 + tanh(u)) with u = sqrt(2 / pi) (v + 0.044715 v^3) is v / (1 + exp(-2 u)): two instructions of the special
// function unit. For a large -u the exponential is infinite, and the quotient zero.
__device__ __forceinline__ float gelu(float v) {
  const float twice = 1.59576912f * (v + 0.044715f * v * v * v);
  return __fdividef(v, 1 + __expf(-twice));
}

__device__ __forceinline__ Half element(Half x, Half bias, Half scale, Half residual, float limit) {
  const float active = gelu(__bfloat162float(x) + __bfloat162float(bias));
  const float value = active * __bfloat162float(scale) + __bfloat162float(residual);
  return __float2bfloat16(fminf(fmaxf(value, -limit), limit));
}

extern "C" __global__ void fused(const Half* __restrict__ x, const Half* __restrict__ bias,
                                 const Half* __restrict__ scale, const Half* __restrict__ residual,
                                 Half* __restrict__ out, float limit, int columns) {
  const int c = blockIdx.y * blockDim.x + threadIdx.x;
  const long long at = (long long)blockIdx.x * columns + c;
  if (c < columns) out[at] = element(x[at], bias[c], scale[c], residual[at], limit);
}

union Piece {
  uint4 all;
  Half halves[PIECE];
};
__device__ __forceinline__ Piece piece_at(const Half* from) {
  Piece part;
  part.all = *reinterpret_cast<const uint4*>(from);
  return part;
}

extern "C" __global__ void wide(const Half* __restrict__ x, const Half* __restrict__ bias,
                                const Half* __restrict__ scale, const Half* __restrict__ residual,
                                Half* __restrict__ out, float limit, int columns) {
  const int c = PIECE * (blockIdx.y * blockDim.x + threadIdx.x);
  const long long at = (long long)blockIdx.x * columns + c;
  if (columns % PIECE) {  // rows start at multiples of 16 bytes only if their length is one
    for (int k = 0; k < PIECE && c + k < columns; ++k)
      out[at + k] = element(x[at + k], bias[c + k], scale[c + k], residual[at + k], limit);
    return;
  }
  if (c >= columns) return;
  const Piece a = piece_at(x + at), r = piece_at(residual + at), b = piece_at(bias + c), s = piece_at(scale + c);
  Piece result;
#pragma unroll
  for (int k = 0; k < PIECE; ++k) result.halves[k] = element(a.halves[k], b.halves[k], s.halves[k], r.halves[k], limit);
  *reinterpret_cast<uint4*>(out + at) = result.all;
}
