// out = x + gelu(norm(x) * weight + bias) in bfloat16, a block of 256 threads a row that waits in its registers.
#include <cuda_bf16.h>

#define THREADS 256

typedef __nv_bfloat16 Half;

// The sum over the block, in every thread: of each warp by shuffles, of the 8 warps behind one barrier. Calls that
// follow one another take different `sums`, so that no warp writes what another still reads.
__device__ __forceinline__ float sum_of_block(float sum, float* sums) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
#pragma unroll
  for (int warp = 0; warp < THREADS / 32; ++warp) sum += sums[warp];
  return sum;
}

template <int VECTOR>
struct alignas(2 * VECTOR) Piece {
  Half halves[VECTOR];
};

// A thread has PIECES pieces of VECTOR elements, the next one THREADS pieces behind: neighbouring threads read
// neighbouring pieces. A piece is one access, so that VECTOR divides `columns`; 256 PIECES VECTOR >= columns.
template <int VECTOR, int PIECES>
__global__ void __launch_bounds__(THREADS)
    norm_gelu(const Half* __restrict__ x, const Half* __restrict__ weight, const Half* __restrict__ bias,
              Half* __restrict__ out, int columns, float epsilon) {
  __shared__ float sums[2][THREADS / 32];
  const long long start = (long long)blockIdx.x * columns;
  const Piece<VECTOR>* from = reinterpret_cast<const Piece<VECTOR>*>(x + start);
  const Piece<VECTOR>* weights = reinterpret_cast<const Piece<VECTOR>*>(weight);
  const Piece<VECTOR>* biases = reinterpret_cast<const Piece<VECTOR>*>(bias);
  Piece<VECTOR>* to = reinterpret_cast<Piece<VECTOR>*>(out + start);
  const int pieces = columns / VECTOR;

  Piece<VECTOR> row[PIECES];
  float sum = 0;
#pragma unroll
  for (int p = 0; p < PIECES; ++p) {
    const int place = threadIdx.x + p * THREADS;
    if (place < pieces) row[p] = from[place];
  }
#pragma unroll
  for (int p = 0; p < PIECES; ++p)
    if (threadIdx.x + p * THREADS < pieces)
#pragma unroll
      for (int k = 0; k < VECTOR; ++k) sum += __bfloat162float(row[p].halves[k]);
  const float mean = sum_of_block(sum, sums[0]) / columns;
  float squares = 0;
#pragma unroll
  for (int p = 0; p < PIECES; ++p)
    if (threadIdx.x + p * THREADS < pieces)
#pragma unroll
      for (int k = 0; k < VECTOR; ++k) {
        const float distance = __bfloat162float(row[p].halves[k]) - mean;
        squares += distance * distance;
      }
  const float scale = rsqrtf(sum_of_block(squares, sums[1]) / columns + epsilon);
#pragma unroll
  for (int p = 0; p < PIECES; ++p) {
    const int place = threadIdx.x + p * THREADS;
    if (place >= pieces) continue;
    const Piece<VECTOR> by = weights[place], plus = biases[place];
    Piece<VECTOR> result;
#pragma unroll
    for (int k = 0; k < VECTOR; ++k) {
      const float value = __bfloat162float(row[p].halves[k]);
      const float y = (value - mean) * scale * __bfloat162float(by.halves[k]) + __bfloat162float(plus.halves[k]);
      // tanh(u) = 1 - 2 / (1 + exp(2 u)), so that gelu(y) = y / (1 + exp(-2 u)), with 2 sqrt(2 / pi) in u.
      const float u = 1.5957691216f * (y + 0.044715f * y * y * y);
      result.halves[k] = __float2bfloat16(value + __fdividef(y, 1.0f + __expf(-u)));
    }
    to[place] = result;
  }
}
