// C = A B^T for bfloat16 (2 in the names: its bytes), by tiles of 128 x 128 and steps of 64 in k. The kernels differ in
// the number of stages, which are places for the operands of a step in shared memory, and in who fills them.
#include "tiles.cuh"

#define BM 128
#define BN 128
#define BK 64
#define THREADS 128  // 2 x 2 warps, each with 64 x 64 of C
#define GROUP 8      // rows of tiles that are walked together
#define STAGE ((BM + BN) * BK)

extern __shared__ __align__(1024) Half stages[];  // of each step: 128 rows of A, 128 rows of B

// Where 16-byte piece p of row r lies. Rows have 128 bytes; pieces change places by the number of the row, so that the
// eight rows that ldmatrix reads at once lie in different banks. It is what TMA's 128-byte swizzle does: bits 4 to 6 of
// the address are changed by bits 7 to 9.
__device__ __forceinline__ int place(int r, int p) { return r * BK + (p ^ (r & 7)) * 8; }

typedef Corner<BM, BN, GROUP> Place;

// Asks for 128 rows of a step's operand; zeros beyond the edges. k is a multiple of 8.
__device__ __forceinline__ void load_rows(Half* to, const Half* from, int first, int rows, int column, int k) {
#pragma unroll
  for (int i = 0; i < BM * BK / 8 / THREADS; ++i) {
    const int at = threadIdx.x + i * THREADS, r = at / (BK / 8), p = at % (BK / 8);
    const bool inside = first + r < rows && column + 8 * p < k;
    async_copy16(to + place(r, p), inside ? from + (first + r) * (long long)k + column + 8 * p : from, inside ? 16 : 0);
  }
}

// The fragments that a warp needs for 16 columns of a step. A 16 x 16 piece of A is four matrices of ldmatrix: lanes 0
// to 15 name its rows at the lower eight of k, lanes 16 to 31 at the upper. Of B, 16 rows are two fragments: lanes 0 to 7
// and 8 to 15 name the first eight rows at the lower and upper k, lanes 16 to 31 the other eight.
struct Fragments {
  unsigned int a[4][4], b[4][4];
};
__device__ __forceinline__ void read(Fragments& to, const Half* stage, int k) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Half *a_rows = stage, *b_rows = stage + BM * BK;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    load_matrices(to.a[i], a_rows + place(warp / 2 * 64 + i * 16 + lane % 16, 2 * k + lane / 16));
    load_matrices(to.b[i], b_rows + place(warp % 2 * 64 + i * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
  }
}

// Multiplies one stage. The fragments of the next 16 columns are read while those of these are multiplied.
__device__ __forceinline__ void multiply(const Half* stage, float (&c)[4][8][4]) {
  Fragments fragments[2];
  read(fragments[0], stage, 0);
#pragma unroll
  for (int k = 0; k < BK / 16; ++k) {
    if (k + 1 < BK / 16) read(fragments[(k + 1) % 2], stage, k + 1);
    const Fragments& now = fragments[k % 2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) multiply_16x8x16(c[i][j], now.a[i], now.b[j / 2][j % 2 * 2], now.b[j / 2][j % 2 * 2 + 1]);
  }
}

__device__ __forceinline__ void store(Half* out, Place corner, int m, int n, const float (&c)[4][8][4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
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

// cp.async fills STAGES - 1 stages ahead of the one that is multiplied. With one stage nothing is ahead: the block
// loads, waits, multiplies, and waits.
template <int STAGES>
__device__ __forceinline__ void by_cp_async(const Half* a, const Half* b, Half* out, int m, int n, int k) {
  const Place corner(blockIdx.x, m, n);
  const int steps = parts(k, BK);
  auto load = [&](int step) {
    if (step < steps) {
      Half* stage = stages + step % STAGES * STAGE;
      load_rows(stage, a, corner.row, m, step * BK, k);
      load_rows(stage + BM * BK, b, corner.column, n, step * BK, k);
    }
    async_commit();  // of nothing too, so that the number of groups tells the step
  };
  float c[4][8][4] = {};
  for (int step = 0; step < STAGES - 1; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    if (STAGES == 1) {
      __syncthreads();  // all have multiplied the step before
      load(step);
      async_wait<0>();
      __syncthreads();
    } else {
      async_wait<STAGES == 1 ? 0 : STAGES - 2>();
      __syncthreads();  // all copies of this step have arrived, and all have multiplied the step before
      load(step + STAGES - 1);
    }
    multiply(stages + step % STAGES * STAGE, c);
  }
  store(out, corner, m, n, c);
}
extern "C" {
__global__ void __launch_bounds__(THREADS, 2)
    one_stage2(const Half* a, const Half* b, Half* out, int m, int n, int k) {
  by_cp_async<1>(a, b, out, m, n, k);
}
__global__ void __launch_bounds__(THREADS, 2)
    two_stages2(const Half* a, const Half* b, Half* out, int m, int n, int k) {
  by_cp_async<2>(a, b, out, m, n, k);
}
__global__ void __launch_bounds__(THREADS, 2)
    three_stages2(const Half* a, const Half* b, Half* out, int m, int n, int k) {
  by_cp_async<3>(a, b, out, m, n, k);
}
}

#if __CUDA_ARCH__ >= 900
// TMA fills the same stages: two instructions of one thread a step, and a barrier that counts the bytes.
// Every wait ends: the barrier of a stage completes once for each step that was asked for, the asking thread is never
// behind the steps that are waited for, and boxes beyond the edges count as full.
#define STAGES 3
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    tma2(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m, int n,
         int k) {
  __shared__ __align__(8) Barrier full[STAGES];
  const Place corner(blockIdx.x, m, n);
  const int steps = parts(k, BK);
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
    barrier_init_fence();
  }
  auto load = [&](int step) {
    if (threadIdx.x != 0 || step >= steps) return;
    Half* stage = stages + step % STAGES * STAGE;
    barrier_expect(full + step % STAGES, STAGE * sizeof(Half));
    tensor_load(stage, &a_map, step * BK, corner.row, full + step % STAGES);
    tensor_load(stage + BM * BK, &b_map, step * BK, corner.column, full + step % STAGES);
  };
  for (int step = 0; step < STAGES - 1; ++step) load(step);
  __syncthreads();  // no thread waits for a barrier before it is initialised
  float c[4][8][4] = {};
  for (int step = 0; step < steps; ++step) {
    barrier_wait(full + step % STAGES, step / STAGES & 1);
    __syncthreads();  // all have multiplied the step before, whose stage is free
    load(step + STAGES - 1);
    multiply(stages + step % STAGES * STAGE, c);
  }
  store(out, corner, m, n, c);
}
#endif
