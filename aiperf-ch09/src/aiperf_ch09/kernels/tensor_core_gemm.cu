// C = A B^T for bfloat16 with rows along k, by tiles of 128 x 128: on the units for float32, and by mma.sync.
#include "tensor_cores.cuh"

#define SIDE 128
#define GROUP 16  // rows of tiles that are walked together

typedef Corner<SIDE, SIDE, GROUP> Place;

// --- Multiply-adds in float32: each thread keeps 8 x 8 elements of C, and the next step is on its way to registers.
#define STEP 16            // of k
#define PITCH (SIDE + 4)   // rows of an operand lie turned in shared memory; the padding keeps fours aligned
#define THREADS 256        // 16 x 16

struct Operands {
  float a[STEP * PITCH], b[STEP * PITCH];  // element (row, k) at k * PITCH + row
};

// Eight elements of a row from column k0 on; zeros beyond the edges.
__device__ __forceinline__ uint4 eight(const Half* __restrict__ from, int row, int k0, int rows, int k) {
  unsigned int words[4] = {};
  const Half* at = from + row * (long long)k + k0;
  if (row < rows && k0 < k && k % 8 == 0) return *reinterpret_cast<const uint4*>(at);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (row < rows && k0 + i < k) words[i / 2] |= (unsigned int)at[i] << 16 * (i % 2);
  return make_uint4(words[0], words[1], words[2], words[3]);
}
// Two bfloat16 as floats, of which they are the upper halves.
__device__ __forceinline__ void put_pair(float* to, unsigned int word) {
  to[0] = __uint_as_float(word << 16);
  to[PITCH] = __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ void put_eight(float* to, uint4 words) {
  put_pair(to, words.x), put_pair(to + 2 * PITCH, words.y);
  put_pair(to + 4 * PITCH, words.z), put_pair(to + 6 * PITCH, words.w);
}
// The eight rows of a thread are two fours, 64 apart.
__device__ __forceinline__ void read_eight(float (&to)[8], const float* from) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 part = *reinterpret_cast<const float4*>(from + half * SIDE / 2);
    to[4 * half] = part.x, to[4 * half + 1] = part.y, to[4 * half + 2] = part.z, to[4 * half + 3] = part.w;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    register_tiles(const Half* __restrict__ a, const Half* __restrict__ b, Half* __restrict__ out, int m, int n,
                   int k) {
  __shared__ __align__(16) Operands operands[2];
  const Place corner(blockIdx.x, m, n);
  const int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;
  const int row = threadIdx.x / 2, deep = threadIdx.x % 2 * 8;  // of what this thread loads
  float c[8][8] = {};
  uint4 next_a = eight(a, corner.row + row, deep, m, k), next_b = eight(b, corner.column + row, deep, n, k);
  for (int k0 = 0, now = 0; k0 < k; k0 += STEP, now ^= 1) {
    put_eight(operands[now].a + deep * PITCH + row, next_a);
    put_eight(operands[now].b + deep * PITCH + row, next_b);
    __syncthreads();  // this step is whole; nobody reads the one before it, whose place the next put takes
    if (k0 + STEP < k) {
      next_a = eight(a, corner.row + row, k0 + STEP + deep, m, k);
      next_b = eight(b, corner.column + row, k0 + STEP + deep, n, k);
    }
#pragma unroll
    for (int s = 0; s < STEP; ++s) {
      float from_a[8], from_b[8];
      read_eight(from_a, operands[now].a + s * PITCH + y);
      read_eight(from_b, operands[now].b + s * PITCH + x);
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) c[i][j] = fmaf(from_a[i], from_b[j], c[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; j += 2)
      store_pair(out, corner.row + y + i / 4 * 64 + i % 4, corner.column + x + j / 4 * 64 + j % 4, m, n, c[i][j],
                 c[i][j + 1]);
}

// --- mma.sync: four warps with 64 x 64 elements each; cp.async fills two other stages while one is multiplied.
#define WARPS_THREADS 128
#define BK 64
#define STAGES 3
#define STAGE (2 * SIDE * BK)  // 128 rows of A, 128 rows of B

extern __shared__ __align__(1024) Half stages[];

// Asks for 128 rows of a step's operand; zeros beyond the edges. k is a multiple of 8.
__device__ __forceinline__ void load_rows(Half* to, const Half* from, int first, int rows, int column, int k) {
#pragma unroll
  for (int i = 0; i < SIDE * BK / 8 / WARPS_THREADS; ++i) {
    const int at = threadIdx.x + i * WARPS_THREADS, r = at / (BK / 8), p = at % (BK / 8);
    const bool inside = first + r < rows && column + 8 * p < k;
    async_copy16(to + place(r, p), inside ? from + (first + r) * (long long)k + column + 8 * p : from, inside ? 16 : 0);
  }
}

// Multiplies one stage. A 16 x 16 piece of A is four matrices of ldmatrix: lanes 0 to 15 name its rows at the lower
// eight of k, lanes 16 to 31 at the upper. Of B, 16 rows are two fragments: lanes 0 to 7 and 8 to 15 name the first
// eight rows at the lower and upper k, lanes 16 to 31 the other eight.
__device__ __forceinline__ void multiply(const Half* stage, float (&c)[4][8][4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Half *a_rows = stage, *b_rows = stage + SIDE * BK;
#pragma unroll
  for (int k = 0; k < BK / 16; ++k) {
    unsigned int a[4][4], b[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      load_matrices(a[i], a_rows + place(warp / 2 * 64 + i * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
    for (int j = 0; j < 4; ++j)
      load_matrices(b[j], b_rows + place(warp % 2 * 64 + j * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) multiply_16x8x16(c[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }
}

// 128 sums a thread: two blocks a multiprocessor leave 255 registers.
extern "C" __global__ void __launch_bounds__(WARPS_THREADS, 2)
    mma_sync(const Half* a, const Half* b, Half* out, int m, int n, int k) {
  const Place corner(blockIdx.x, m, n);
  const int steps = parts(k, BK), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  auto load = [&](int step) {
    if (step < steps) {
      Half* stage = stages + step % STAGES * STAGE;
      load_rows(stage, a, corner.row, m, step * BK, k);
      load_rows(stage + SIDE * BK, b, corner.column, n, step * BK, k);
    }
    async_commit();  // of nothing too, so that the number of groups tells the step
  };
  float c[4][8][4] = {};
  for (int step = 0; step < STAGES - 1; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    async_wait<STAGES - 2>();
    __syncthreads();  // all copies of this step have arrived, and all have multiplied the step before
    load(step + STAGES - 1);
    multiply(stages + step % STAGES * STAGE, c);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int row = corner.row + warp / 2 * 64 + i * 16 + lane / 4;
      const int column = corner.column + warp % 2 * 64 + j * 8 + lane % 4 * 2;
      store_pair(out, row, column, m, n, c[i][j][0], c[i][j][1]);
      store_pair(out, row + 8, column, m, n, c[i][j][2], c[i][j][3]);
    }
}
