// C = A B^T for bfloat16 by wgmma, with operands that TMA brings to a ring of stages in shared memory. The kernels differ
// in how many stages are under way, and in who asks for them.
#include "tiles.cuh"

#define BM 128
#define BN 256
#define BK 64           // 128 bytes: a row of TMA's swizzle
#define TILE_ROWS 1024  // of C that are walked together

#define STAGE ((BM + BN) * BK)  // elements of a step: BM rows of A, 256 rows of B

extern __shared__ __align__(1024) Half stages[];

// Asks for a step. By one thread.
__device__ __forceinline__ void load(Half* stage, const CUtensorMap* a_map, const CUtensorMap* b_map, Barrier* full,
                                     int row, int column, int step) {
  barrier_expect(full, STAGE * sizeof(Half));
  tensor_load(stage, a_map, step * BK, row, full);
  tensor_load(stage + BM * BK, b_map, step * BK, column, full);
}

// Starts the products of a step: 64 rows of A by 256 rows of B, 16 of k at a time.
__device__ __forceinline__ void multiply(float (&d)[128], const Half* a, const Half* b) {
  registers_fence(d);
  product_fence();
#pragma unroll
  for (int k = 0; k < BK; k += 16) multiply_64x256x16(d, operand(a + k), operand(b + k));
  product_commit();
  registers_fence(d);
}

// Stores a warpgroup's 64 rows of a tile. Each thread has pairs of two rows in every eight columns.
__device__ __forceinline__ void store(Half* out, int row, int column, int m, int n, const float (&d)[128]) {
  const int r = row + threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4, c = column + threadIdx.x % 4 * 2;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    store_pair(out, r, c + 8 * j, m, n, d[4 * j], d[4 * j + 1]);
    store_pair(out, r + 8, c + 8 * j, m, n, d[4 * j + 2], d[4 * j + 3]);
  }
}

// All warps do everything: two warpgroups multiply 64 rows each, and after every step the block meets, so that one of
// its threads may ask for the operands of a later step. With one stage the products of a step must end before that.
template <int STAGES>
__device__ __forceinline__ void all_alike(const CUtensorMap* a_map, const CUtensorMap* b_map, Half* out, int m, int n,
                                          int k) {
  __shared__ Ring<STAGES> ring;
  const Corner<BM, BN, TILE_ROWS / BM> corner(blockIdx.x, m, n);
  const int steps = parts(k, BK), group = threadIdx.x / WARPGROUP;
  constexpr int UNDER_WAY = STAGES > 1;  // steps whose products go on while the next are asked for
  auto ask = [&](int step) {
    if (threadIdx.x == 0 && step >= 0 && step < steps)
      load(stages + step % STAGES * STAGE, a_map, b_map, ring.full + step % STAGES, corner.row, corner.column, step);
  };
  if (threadIdx.x == 0) {
    ring.init(1);
    barrier_init_fence();
    for (int step = 0; step < STAGES; ++step) ask(step);
  }
  __syncthreads();  // no thread waits for a barrier before it is initialised
  float d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0;
  for (int step = 0; step < steps; ++step) {
    const Half* stage = stages + step % STAGES * STAGE;
    barrier_wait(ring.full + step % STAGES, step / STAGES & 1);
    multiply(d, stage + group * 64 * BK, stage + BM * BK);
    product_wait<UNDER_WAY>();
    __syncthreads();  // all products but those under way are done, and the place of the last of them is free
    if (step >= UNDER_WAY) ask(step - UNDER_WAY + STAGES);
  }
  product_wait<0>();
  registers_fence(d);
  store(out, corner.row + group * 64, corner.column, m, n, d);
}
extern "C" __global__ void __launch_bounds__(2 * WARPGROUP, 1)
    one_stage(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  all_alike<1>(&a_map, &b_map, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(2 * WARPGROUP, 1)
    pipelined(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  all_alike<4>(&a_map, &b_map, out, m, n, k);
}

// One warpgroup asks for operands and has few registers; two multiply 64 rows of every tile each. A block takes every
// gridDim.x-th tile, and goes on asking for the next tile's operands while this one's results are stored.
#define STAGES 4
extern "C" __global__ void __launch_bounds__(3 * WARPGROUP, 1)
    specialized(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
                int n, int k) {
  typedef Corner<BM, BN, TILE_ROWS / BM> Place;
  __shared__ Ring<STAGES> ring;
  const int steps = parts(k, BK), tiles = parts(m, BM) * parts(n, BN);
  if (threadIdx.x == 0) {
    ring.init(2 * WARPS);
    barrier_init_fence();
  }
  __syncthreads();  // the only time that all roles meet

  if (threadIdx.x < WARPGROUP) {
    registers_down();
    int i = 0;
    for (int tile = blockIdx.x; threadIdx.x == 0 && tile < tiles; tile += gridDim.x) {
      const Place corner(tile, m, n);
      for (int step = 0; step < steps; ++step, ++i) {
        barrier_wait(ring.empty + i % STAGES, (i / STAGES & 1) ^ 1);  // in round 0 the places are empty
        load(stages + i % STAGES * STAGE, &a_map, &b_map, ring.full + i % STAGES, corner.row, corner.column, step);
      }
    }
  } else {
    registers_up();
    const int group = threadIdx.x / WARPGROUP - 1;
    const bool tells = threadIdx.x % 32 == 0;  // for its warp, all of which has waited when it has multiplied
    int i = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      float d[128];
#pragma unroll
      for (int j = 0; j < 128; ++j) d[j] = 0;
      for (int step = 0; step < steps; ++step, ++i) {
        const Half* stage = stages + i % STAGES * STAGE;
        barrier_wait(ring.full + i % STAGES, i / STAGES & 1);
        multiply(d, stage + group * 64 * BK, stage + BM * BK);
        product_wait<1>();
        if (step > 0 && tells) barrier_arrive(ring.empty + (i - 1) % STAGES);
      }
      product_wait<0>();
      registers_fence(d);
      if (tells) barrier_arrive(ring.empty + (i - 1) % STAGES);
      const Place corner(tile, m, n);
      store(out, corner.row + group * 64, corner.column, m, n, d);
    }
  }
}
