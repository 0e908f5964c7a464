// Causal attention of bfloat16 for heads of 128 columns: the softmax between two products of a library, and both products
// and the softmax in one kernel that stores no score.
#include "tensor_cores.cuh"

#define WIDTH 128            // columns of a head
#define ROWS 128             // queries of a block: 32 for each of four warps
#define KEYS 64              // of a step
#define THREADS 128
#define SCALE 0.1275174308f  // log2(e) / sqrt(WIDTH)
#define MINUS_INFINITY __uint_as_float(0xff800000)

__device__ __forceinline__ float widen(unsigned int pair, int i) {
  return __uint_as_float(i ? pair & 0xffff0000u : pair << 16);
}
__device__ __forceinline__ float largest_of_warp(float v) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, by));
  return v;
}
__device__ __forceinline__ float sum_of_warp(float v) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(~0u, v, by);
  return v;
}

// Scores of a query become shares, in place; those of later keys become 0. A warp a row; `pitch` is a multiple of eight.
extern "C" __global__ void __launch_bounds__(THREADS) masked_softmax(Half* scores, int rows, int length, int pitch) {
  constexpr int STEP = 8 * 32;
  const int number = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, first = threadIdx.x % 32 * 8;
  if (number >= rows) return;
  const int query = number % length;
  Half* const row = scores + number * (long long)pitch;
  union Piece {
    uint4 all;
    unsigned int pairs[4];
  };
  auto score = [&](const Piece& piece, int at, int i) {
    return at + i <= query ? widen(piece.pairs[i / 2], i % 2) : MINUS_INFINITY;
  };
  float most = MINUS_INFINITY, sum = 0;
  for (int at = first; at <= query; at += STEP) {
    Piece piece;
    piece.all = *reinterpret_cast<const uint4*>(row + at);
    float larger = most;
#pragma unroll
    for (int i = 0; i < 8; ++i) larger = fmaxf(larger, score(piece, at, i));
    sum *= power_of_2((most - larger) * SCALE);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += power_of_2((score(piece, at, i) - larger) * SCALE);
    most = larger;
  }
  const float largest = largest_of_warp(most);
  const float inverse = 1 / sum_of_warp(sum * power_of_2((most - largest) * SCALE));
  for (int at = first; at < length; at += STEP) {
    Piece piece = {};
    if (at <= query) {
      piece.all = *reinterpret_cast<const uint4*>(row + at);
      float share[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) share[i] = power_of_2((score(piece, at, i) - largest) * SCALE) * inverse;
#pragma unroll
      for (int i = 0; i < 4; ++i) piece.pairs[i] = pack_bf16(share[2 * i], share[2 * i + 1]);
    }
    *reinterpret_cast<uint4*>(row + at) = piece.all;
  }
}

extern __shared__ __align__(1024) Half tiles[];  // ROWS queries, KEYS keys, KEYS values

// Where 16-byte piece p of row r lies, in two halves of rows of 64 elements.
template <int COUNT>
__device__ __forceinline__ int at(int r, int p) {
  return p / 8 * (COUNT * 64) + place(r, p % 8);
}

// Asks for COUNT rows of a head, which has fewer than 2^31 elements; zeros beyond its last.
template <int COUNT>
__device__ __forceinline__ void load_rows(Half* to, const Half* head, int first, int length) {
#pragma unroll
  for (int i = 0; i < COUNT * WIDTH / 8 / THREADS; ++i) {
    const int piece = threadIdx.x + i * THREADS, r = piece / (WIDTH / 8), p = piece % (WIDTH / 8);
    const bool inside = first + r < length;
    async_copy16(to + at<COUNT>(r, p), head + (inside ? (first + r) * WIDTH + 8 * p : 0), inside ? 16 : 0);
  }
  async_commit();
}

// A block has 128 queries of a head. Those with the most keys come first. Values are copied beside the product of the
// keys, the next keys beside that of the values.
template <bool SKIP>
__device__ __forceinline__ void one_pass(const Half* q, const Half* keys, const Half* values, Half* out, int length) {
  const int across = parts(length, ROWS), head = blockIdx.x / across;
  const int first = (across - 1 - blockIdx.x % across) * ROWS;
  const long long offset = head * (long long)length * WIDTH;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Half *const of_keys = tiles + ROWS * WIDTH, *const of_values = of_keys + KEYS * WIDTH;
  const int end = SKIP ? min(length, first + ROWS) : length;  // of the keys that a query of this block meets
  float sums[2][16][4] = {}, largest[2][2], total[2][2] = {};
  for (int m = 0; m < 2; ++m) largest[m][0] = largest[m][1] = MINUS_INFINITY;

  load_rows<ROWS>(tiles, q + offset, first, length);
  load_rows<KEYS>(of_keys, keys + offset, 0, length);
  for (int key = 0; key < end; key += KEYS) {
    async_wait<0>();
    __syncthreads();  // the keys are there, and the values before are no longer read
    load_rows<KEYS>(of_values, values + offset, key, length);
    float scores[2][KEYS / 8][4] = {};
#pragma unroll 2  // more of them would have fragments ahead that registers do not hold
    for (int k = 0; k < WIDTH / 16; ++k) {
      unsigned int a[2][4], b[4];
      for (int m = 0; m < 2; ++m)
        load_matrices(a[m], tiles + at<ROWS>(warp * 32 + m * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (int j = 0; j < KEYS / 8; j += 2) {
        load_matrices(b, of_keys + at<KEYS>(j * 8 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
        for (int m = 0; m < 2; ++m) {
          multiply_16x8x16(scores[m][j], a[m], b[0], b[1]);
          multiply_16x8x16(scores[m][j + 1], a[m], b[2], b[3]);
        }
      }
    }
    const bool masked = !SKIP || key + KEYS > first + warp * 32;
    unsigned int shares[2][KEYS / 16][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int query = first + warp * 32 + m * 16 + r * 8 + lane / 4;
        float most = largest[m][r], sum = 0;
#pragma unroll
        for (int i = 0; i < KEYS / 4; ++i) {
          float& score = scores[m][i / 2][2 * r + i % 2];
          if (masked && key + i / 2 * 8 + lane % 4 * 2 + i % 2 > query) score = MINUS_INFINITY;
          most = fmaxf(most, score);
        }
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));  // a number from the first step on: of key 0
        const float factor = power_of_2((largest[m][r] - most) * SCALE);
        largest[m][r] = most;
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) {
          float share[2];
          for (int i = 0; i < 2; ++i)
            sum += share[i] = power_of_2(fmaf(scores[m][j][2 * r + i], SCALE, -most * SCALE));
          shares[m][j / 2][j % 2 * 2 + r] = pack_bf16(share[0], share[1]);
        }
        total[m][r] = total[m][r] * factor + sum;
#pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j)
          for (int i = 0; i < 2; ++i) sums[m][j][2 * r + i] *= factor;
      }
    async_wait<0>();
    __syncthreads();  // the values are there, and the keys are no longer read
    if (key + KEYS < end) load_rows<KEYS>(of_keys, keys + offset, key + KEYS, length);
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k)
#pragma unroll
      for (int j = 0; j < WIDTH / 8; j += 2) {
        unsigned int b[4];
        load_transposed(b, of_values + at<KEYS>(k * 16 + lane % 16, j + lane / 16));
        for (int m = 0; m < 2; ++m) {
          multiply_16x8x16(sums[m][j], shares[m][k], b[0], b[1]);
          multiply_16x8x16(sums[m][j + 1], shares[m][k], b[2], b[3]);
        }
      }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float all = total[m][r];
      all += __shfl_xor_sync(~0u, all, 1);
      all += __shfl_xor_sync(~0u, all, 2);
      const float inverse = 1 / all;
#pragma unroll
      for (int j = 0; j < WIDTH / 8; ++j)
        store_pair(out + offset, first + warp * 32 + m * 16 + r * 8 + lane / 4, j * 8 + lane % 4 * 2, length, WIDTH,
                   sums[m][j][2 * r] * inverse, sums[m][j][2 * r + 1] * inverse);
    }
}
extern "C" {
__global__ void __launch_bounds__(THREADS, 2)
    tiled(const Half* q, const Half* keys, const Half* values, Half* out, int length) {
  one_pass<false>(q, keys, values, out, length);
}
__global__ void __launch_bounds__(THREADS, 2)
    skipped(const Half* q, const Half* keys, const Half* values, Half* out, int length) {
  one_pass<true>(q, keys, values, out, length);
}
}
