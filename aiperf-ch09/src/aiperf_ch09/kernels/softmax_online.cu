// Softmax of rows in bfloat16; the kernels differ in how often a row comes from global memory. Thread t of a block takes
// the pieces of 8 elements with the numbers t, t + threads and so on, in every pass.
#include "aiperf/bulk.cuh"

#define PIECE 8
// Blocks that read a row more than once. 16 of them fill a multiprocessor: their rows are more than L2 holds.
#define THREADS 128
#define BLOCKS 16
#define LOG2E 1.44269504f
// The bits of a bfloat16, about -3e38, in place of -infinity, of which a difference would be NaN: exp(LOWEST - m) is 0 for
// each maximum m of real elements.
#define LOWEST_HALF ((Half)0xff62)
#define LOWEST __uint_as_float(0xff620000u)

typedef unsigned short Half;  // the bits of a bfloat16, which is the upper half of a float

union Piece {
  uint4 all;
  unsigned int pairs[PIECE / 2];
  Half halves[PIECE];
};
__device__ __forceinline__ float low(unsigned int pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(unsigned int pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ unsigned int larger_pair(unsigned int a, unsigned int b) {
  unsigned int larger;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
__device__ __forceinline__ unsigned int pair_of(float low, float high) {
  unsigned int pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ float power_of_2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
__device__ __forceinline__ int pieces_of(int columns) { return (columns + PIECE - 1) / PIECE; }
__device__ __forceinline__ bool are_whole(int columns) { return columns % PIECE == 0; }

// Piece p of a row that consists of whole pieces; else rows do not start at multiples of 16 bytes.
__device__ __forceinline__ Piece whole_piece(const Half* row, int p) {
  Piece part;
  part.all = reinterpret_cast<const uint4*>(row)[p];
  return part;
}
// Piece p of any row; LOWEST beyond the row's end.
__device__ __forceinline__ Piece any_piece(const Half* row, int p, int columns) {
  Piece part;
#pragma unroll
  for (int k = 0; k < PIECE; ++k)
    part.halves[k] = PIECE * p + k < columns ? row[PIECE * p + k] : LOWEST_HALF;
  return part;
}
__device__ __forceinline__ Piece piece_of(const Half* row, int p, int columns) {
  return are_whole(columns) ? whole_piece(row, p) : any_piece(row, p, columns);
}

__device__ __forceinline__ float largest_of(const Piece& part) {
  const unsigned int two =
      larger_pair(larger_pair(part.pairs[0], part.pairs[1]), larger_pair(part.pairs[2], part.pairs[3]));
  return fmaxf(low(two), high(two));
}
__device__ __forceinline__ float sum_of(const Piece& part, float maximum) {
  const float shift = -maximum * LOG2E;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < PIECE / 2; ++k)
    sum += power_of_2(fmaf(low(part.pairs[k]), LOG2E, shift)) + power_of_2(fmaf(high(part.pairs[k]), LOG2E, shift));
  return sum;
}

// A maximum, and the sum of exp(x - maximum), of some elements; of none it is (LOWEST, 0).
struct Found {
  float maximum, sum;
};
__device__ __forceinline__ Found both(Found a, Found b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  return {maximum,
          a.sum * power_of_2((a.maximum - maximum) * LOG2E) + b.sum * power_of_2((b.maximum - maximum) * LOG2E)};
}
// Of the elements of all lanes, in every lane: one exponential a lane.
__device__ __forceinline__ Found of_warp(Found found) {
  const float own = found.maximum;
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    found.maximum = fmaxf(found.maximum, __shfl_xor_sync(0xffffffff, found.maximum, step));
  found.sum *= power_of_2((own - found.maximum) * LOG2E);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) found.sum += __shfl_xor_sync(0xffffffff, found.sum, step);
  return found;
}
// Of the elements of all threads, in every thread: the warps meet in shared memory.
template <int WARPS>
__device__ __forceinline__ Found of_block(Found found) {
  __shared__ Found of_warps[WARPS];
  const int lane = threadIdx.x % 32;
  found = of_warp(found);
  __syncthreads();  // nobody reads what an earlier call left
  if (lane == 0) of_warps[threadIdx.x / 32] = found;
  __syncthreads();
  return of_warp(lane < WARPS ? of_warps[lane] : Found{LOWEST, 0});
}

// What all exponents of a row are lowered by. It has the division by the sum, too.
__device__ __forceinline__ float shift_of(Found of) { return -of.maximum * LOG2E - __log2f(of.sum); }
__device__ __forceinline__ void store(Half* row, int p, int columns, const Piece& part, float shift) {
  Piece result;
#pragma unroll
  for (int k = 0; k < PIECE / 2; ++k)
    result.pairs[k] = pair_of(power_of_2(fmaf(low(part.pairs[k]), LOG2E, shift)),
                              power_of_2(fmaf(high(part.pairs[k]), LOG2E, shift)));
  if (are_whole(columns)) {
    reinterpret_cast<uint4*>(row)[p] = result.all;
  } else {
#pragma unroll
    for (int k = 0; k < PIECE; ++k)
      if (PIECE * p + k < columns) row[PIECE * p + k] = result.halves[k];
  }
}
// Reads pieces from `first` to `end` once more, and writes their results.
__device__ __forceinline__ void store_all(const Half* row, Half* to, int first, int end, int columns, Found found) {
  const float shift = shift_of(found);
  for (int p = first + threadIdx.x; p < end; p += THREADS) store(to, p, columns, piece_of(row, p, columns), shift);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    three_passes(const Half* __restrict__ x, Half* __restrict__ out, int columns) {
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns);
  Found found = {LOWEST, 0};
  for (int p = threadIdx.x; p < pieces; p += THREADS)
    found.maximum = fmaxf(found.maximum, largest_of(piece_of(row, p, columns)));
  found = of_block<THREADS / 32>(found);
  found.sum = 0;
  for (int p = threadIdx.x; p < pieces; p += THREADS) found.sum += sum_of(piece_of(row, p, columns), found.maximum);
  found = of_block<THREADS / 32>(found);
  store_all(row, out + (long long)blockIdx.x * columns, 0, pieces, columns, found);
}

// The thread's maximum so far may rise with each piece; its sum is then scaled to it.
__device__ __forceinline__ Found and_piece(Found found, const Piece& part) {
  const float maximum = fmaxf(found.maximum, largest_of(part));
  return {maximum, found.sum * power_of_2((found.maximum - maximum) * LOG2E) + sum_of(part, maximum)};
}
__device__ __forceinline__ Found in_one_pass(const Half* row, int first, int end, int columns) {
  Found found = {LOWEST, 0};
  for (int p = first + threadIdx.x; p < end; p += THREADS) found = and_piece(found, piece_of(row, p, columns));
  return of_block<THREADS / 32>(found);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    online(const Half* __restrict__ x, Half* __restrict__ out, int columns) {
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns);
  const Found found = in_one_pass(row, 0, pieces, columns);
  store_all(row, out + (long long)blockIdx.x * columns, 0, pieces, columns, found);
}

// A row stays in shared memory: all of its pieces are under way at once, past the registers. A thread reads what it has
// copied itself, so that its own wait is enough.
#define ROW_THREADS 512
extern __shared__ __align__(16) uint4 kept[];
extern "C" __global__ void __launch_bounds__(ROW_THREADS, 3)
    resident(const Half* __restrict__ x, Half* __restrict__ out, int columns) {
  const Half* row = x + (long long)blockIdx.x * columns;
  const int pieces = pieces_of(columns);
  for (int p = threadIdx.x; p < pieces; p += ROW_THREADS) {
    if (are_whole(columns)) async_copy16(kept + p, reinterpret_cast<const uint4*>(row) + p);
    else kept[p] = any_piece(row, p, columns).all;
  }
  async_commit();
  async_wait<0>();
  Found found = {LOWEST, 0};
  for (int p = threadIdx.x; p < pieces; p += ROW_THREADS) found = and_piece(found, {kept[p]});
  found = of_block<ROW_THREADS / 32>(found);
  const float shift = shift_of(found);
  for (int p = threadIdx.x; p < pieces; p += ROW_THREADS)
    store(out + (long long)blockIdx.x * columns, p, columns, {kept[p]}, shift);
}

// Block (r, k) of `parts` for each row takes the pieces from k / parts to (k + 1) / parts of row r.
__device__ __forceinline__ int part_start(int pieces, int part) { return (int)((long long)pieces * part / gridDim.y); }

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    summarise_part(const Half* __restrict__ x, float2* __restrict__ of_parts, int columns) {
  const int pieces = pieces_of(columns), first = part_start(pieces, blockIdx.y), end = part_start(pieces, blockIdx.y + 1);
  const Found found = in_one_pass(x + (long long)blockIdx.x * columns, first, end, columns);
  if (threadIdx.x == 0) of_parts[blockIdx.x * gridDim.y + blockIdx.y] = make_float2(found.maximum, found.sum);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    finish_part(const Half* __restrict__ x, const float2* __restrict__ of_parts, Half* __restrict__ out, int columns) {
  const int pieces = pieces_of(columns), first = part_start(pieces, blockIdx.y), end = part_start(pieces, blockIdx.y + 1);
  Found found = {LOWEST, 0};
  for (int k = threadIdx.x; k < gridDim.y; k += THREADS) {
    const float2 part = of_parts[blockIdx.x * gridDim.y + k];
    found = both(found, {part.x, part.y});
  }
  found = of_block<THREADS / 32>(found);
  const long long start = (long long)blockIdx.x * columns;
  store_all(x + start, out + start, first, end, columns, found);
}
