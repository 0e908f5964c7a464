// total = x + residual, y = weight * total / sqrt(mean of total^2 + EPSILON), in bfloat16; a block of 256 threads a row.
// The float32 sums wait in shared memory. Each thread reads only those that it wrote, so they need no barrier.
#include <cuda_bf16.h>

#define EPSILON 1e-6f
#define THREADS 256
#define PIECE 8  // elements of 16 bytes

typedef __nv_bfloat16 Half;

// The sum over the block, in every thread: of each warp by shuffles, of the 8 warps behind one barrier.
__device__ float sum_of_block(float sum) {
  __shared__ float sums[THREADS / 32];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < THREADS / 32; ++warp) sum += sums[warp];
  return sum;
}

__device__ void one_at_a_time(const Half* x, const Half* residual, const Half* weight, Half* total, Half* y, float* kept,
                              int columns) {
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += THREADS) {
    const float value = __bfloat162float(x[c]) + __bfloat162float(residual[c]);
    kept[c] = value;
    total[c] = __float2bfloat16(value);
    sum += value * value;
  }
  const float scale = rsqrtf(sum_of_block(sum) / columns + EPSILON);
  for (int c = threadIdx.x; c < columns; c += THREADS)
    y[c] = __float2bfloat16(kept[c] * scale * __bfloat162float(weight[c]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    block_per_row(const Half* __restrict__ x, const Half* __restrict__ residual, const Half* __restrict__ weight,
                  Half* __restrict__ total, Half* __restrict__ y, int columns) {
  extern __shared__ float4 kept[];
  const long long start = (long long)blockIdx.x * columns;
  one_at_a_time(x + start, residual + start, weight, total + start, y + start, reinterpret_cast<float*>(kept), columns);
}

union Piece {
  uint4 all;
  Half halves[PIECE];
};
__device__ __forceinline__ Piece piece_of(const Half* row, int piece) {
  Piece part;
  part.all = reinterpret_cast<const uint4*>(row)[piece];
  return part;
}

// Eight elements at a time. The first four floats of piece p lie at p, the others at p + pieces: neighbouring lanes
// access neighbouring 16 bytes, and meet no bank twice.
extern "C" __global__ void __launch_bounds__(THREADS)
    wide(const Half* __restrict__ x, const Half* __restrict__ residual, const Half* __restrict__ weight,
         Half* __restrict__ total, Half* __restrict__ y, int columns) {
  extern __shared__ float4 kept[];
  const long long start = (long long)blockIdx.x * columns;
  x += start, residual += start, total += start, y += start;
  if (columns % PIECE) {  // rows start at multiples of 16 bytes only if their length is one
    one_at_a_time(x, residual, weight, total, y, reinterpret_cast<float*>(kept), columns);
    return;
  }
  const int pieces = columns / PIECE;
  float sum = 0;
  for (int p = threadIdx.x; p < pieces; p += THREADS) {
    const Piece a = piece_of(x, p), b = piece_of(residual, p);
    Piece narrow;
    float values[PIECE];
#pragma unroll
    for (int k = 0; k < PIECE; ++k) {
      values[k] = __bfloat162float(a.halves[k]) + __bfloat162float(b.halves[k]);
      narrow.halves[k] = __float2bfloat16(values[k]);
      sum += values[k] * values[k];
    }
    kept[p] = make_float4(values[0], values[1], values[2], values[3]);
    kept[p + pieces] = make_float4(values[4], values[5], values[6], values[7]);
    reinterpret_cast<uint4*>(total)[p] = narrow.all;
  }
  const float scale = rsqrtf(sum_of_block(sum) / columns + EPSILON);
  for (int p = threadIdx.x; p < pieces; p += THREADS) {
    const Piece by = piece_of(weight, p);
    const float4 low = kept[p], high = kept[p + pieces];
    const float values[PIECE] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    Piece narrow;
#pragma unroll
    for (int k = 0; k < PIECE; ++k)
      narrow.halves[k] = __float2bfloat16(values[k] * scale * __bfloat162float(by.halves[k]));
    reinterpret_cast<uint4*>(y)[p] = narrow.all;
  }
}
