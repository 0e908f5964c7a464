// Softmax of rows in bfloat16; what differs is how often a row is read from global memory. Blocks of 512 threads take
// pieces of 8 elements: thread t those with the numbers t, t + 512 and so on, in every pass.
#include <cuda_bf16.h>

#define THREADS 512
#define PIECE 8
// In place of -infinity, of which a difference would be NaN: exp(LOWEST - m) is 0 for each maximum m of real elements.
#define LOWEST -3e38f

typedef __nv_bfloat16 Half;

union Piece {
  uint4 all;
  Half halves[PIECE];
};

// Piece p of a row; LOWEST beyond the row's end. Rows start at multiples of 16 bytes only if their length is one.
__device__ __forceinline__ Piece piece_of(const Half* row, int p, int columns) {
  Piece part;
  if (columns % PIECE == 0) {
    part.all = reinterpret_cast<const uint4*>(row)[p];
  } else {
#pragma unroll
    for (int k = 0; k < PIECE; ++k)
      part.halves[k] = PIECE * p + k < columns ? row[PIECE * p + k] : __float2bfloat16(LOWEST);
  }
  return part;
}
__device__ __forceinline__ float largest_of(const Piece& part) {
  float largest = LOWEST;
#pragma unroll
  for (int k = 0; k < PIECE; ++k) largest = fmaxf(largest, __bfloat162float(part.halves[k]));
  return largest;
}
__device__ __forceinline__ float sum_of(const Piece& part, float maximum) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < PIECE; ++k) sum += __expf(__bfloat162float(part.halves[k]) - maximum);
  return sum;
}

// A maximum, and the sum of exp(x - maximum), of some elements; of none it is (LOWEST, 0).
struct Found {
  float maximum, sum;
};
__device__ __forceinline__ Found both(Found a, Found b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  return {maximum, a.sum * __expf(a.maximum - maximum) + b.sum * __expf(b.maximum - maximum)};
}
// Of the elements of all threads, in every thread: of each warp by shuffles, of the 16 warps through shared memory.
__device__ Found of_block(Found found) {
  __shared__ Found of_warp[THREADS / 32];
  for (int step = 16; step > 0; step /= 2)
    found = both(found, {__shfl_xor_sync(0xffffffff, found.maximum, step), __shfl_xor_sync(0xffffffff, found.sum, step)});
  __syncthreads();  // nobody reads what an earlier call left
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = found;
  __syncthreads();
  found = of_warp[0];
  for (int warp = 1; warp < THREADS / 32; ++warp) found = both(found, of_warp[warp]);
  return found;
}

__device__ __forceinline__ void store(Half* row, int p, int columns, const Piece& part, Found of) {
  const float scale = 1 / of.sum;
  Piece result;
#pragma unroll
  for (int k = 0; k < PIECE; ++k)
    result.halves[k] = __float2bfloat16(__expf(__bfloat162float(part.halves[k]) - of.maximum) * scale);
  if (columns % PIECE == 0) {
    reinterpret_cast<uint4*>(row)[p] = result.all;
  } else {
#pragma unroll
    for (int k = 0; k < PIECE; ++k)
      if (PIECE * p + k < columns) row[PIECE * p + k] = result.halves[k];
  }
}
__device__ __forceinline__ int pieces_of(int columns) { return (columns + PIECE - 1) / PIECE; }

extern "C" __global__ void __launch_bounds__(THREADS)
    three_passes(const Half* __restrict__ x, Half* __restrict__ out, int columns) {
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns);
  Found found = {LOWEST, 0};
  for (int p = threadIdx.x; p < pieces; p += THREADS)
    found.maximum = fmaxf(found.maximum, largest_of(piece_of(row, p, columns)));
  found = of_block(found);
  found.sum = 0;
  for (int p = threadIdx.x; p < pieces; p += THREADS) found.sum += sum_of(piece_of(row, p, columns), found.maximum);
  found = of_block(found);
  for (int p = threadIdx.x; p < pieces; p += THREADS)
    store(out + (long long)blockIdx.x * columns, p, columns, piece_of(row, p, columns), found);
}

// The thread's maximum so far may rise with each piece; its sum is then scaled to it.
__device__ __forceinline__ Found and_piece(Found found, const Piece& part) {
  const float maximum = fmaxf(found.maximum, largest_of(part));
  return {maximum, found.sum * __expf(found.maximum - maximum) + sum_of(part, maximum)};
}

extern "C" __global__ void __launch_bounds__(THREADS)
    online(const Half* __restrict__ x, Half* __restrict__ out, int columns) {
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns);
  Found found = {LOWEST, 0};
  for (int p = threadIdx.x; p < pieces; p += THREADS) found = and_piece(found, piece_of(row, p, columns));
  found = of_block(found);
  for (int p = threadIdx.x; p < pieces; p += THREADS)
    store(out + (long long)blockIdx.x * columns, p, columns, piece_of(row, p, columns), found);
}

// A thread reads back only pieces that it wrote itself, so they need no barrier.
extern "C" __global__ void __launch_bounds__(THREADS)
    resident(const Half* __restrict__ x, Half* __restrict__ out, int columns) {
  extern __shared__ uint4 kept[];
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns);
  Found found = {LOWEST, 0};
  for (int p = threadIdx.x; p < pieces; p += THREADS) {
    const Piece part = piece_of(row, p, columns);
    kept[p] = part.all;
    found = and_piece(found, part);
  }
  found = of_block(found);
  for (int p = threadIdx.x; p < pieces; p += THREADS) {
    Piece part;
    part.all = kept[p];
    store(out + (long long)blockIdx.x * columns, p, columns, part, found);
  }
}

// Block (r, k) of `parts` for each row takes the pieces from k / parts to (k + 1) / parts of row r.
__device__ __forceinline__ int part_start(int pieces, int part) { return (int)((long long)pieces * part / gridDim.y); }

extern "C" __global__ void __launch_bounds__(THREADS)
    summarise_part(const Half* __restrict__ x, float2* __restrict__ of_parts, int columns) {
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns), end = part_start(pieces, blockIdx.y + 1);
  Found found = {LOWEST, 0};
  for (int p = part_start(pieces, blockIdx.y) + threadIdx.x; p < end; p += THREADS)
    found = and_piece(found, piece_of(row, p, columns));
  found = of_block(found);
  if (threadIdx.x == 0) of_parts[blockIdx.x * gridDim.y + blockIdx.y] = make_float2(found.maximum, found.sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    finish_part(const Half* __restrict__ x, const float2* __restrict__ of_parts, Half* __restrict__ out, int columns) {
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns), end = part_start(pieces, blockIdx.y + 1);
  Found found = {LOWEST, 0};
  for (int k = threadIdx.x; k < gridDim.y; k += THREADS) {
    const float2 part = of_parts[blockIdx.x * gridDim.y + k];
    found = both(found, {part.x, part.y});
  }
  found = of_block(found);
  for (int p = part_start(pieces, blockIdx.y) + threadIdx.x; p < end; p += THREADS)
    store(out + (long long)blockIdx.x * columns, p, columns, piece_of(row, p, columns), found);
}
