// C = A B^T for bfloat16 by wgmma, with operands that the copy engine brings to a ring of stages in shared memory. The
// kernels differ in who asks for the operands, and in how the warpgroups that multiply share the tiles of C.
#include "tiles.cuh"

#define BN 256
#define BK 64           // 128 bytes: a row of the copy engine's swizzle
#define WARPGROUP 128   // threads, which multiply 64 rows together
#define WARPS 4         // of a warpgroup
#define TILE_ROWS 1024  // of C that are walked together

extern __shared__ __align__(1024) Half stages[];  // of each step: BM rows of A, 256 rows of B

// Waits of all kernels end. Steps are numbered through all tiles of a block: step i uses place i % STAGES in round i /
// STAGES. A round of `full` is completed by the copy engine, which counts boxes beyond the edges as full too. A round
// of `empty` is completed by the warps that multiply, and these wait for nothing but `full` (and their turn, see
// below). Steps are asked for in the order in which they are multiplied, so that the oldest place that is not empty
// always belongs to products that are under way. The parity of a round is enough to tell it from its neighbours,
// because no place begins a round before all warps that wait for the last one have seen it.
template <int STAGES>
struct Ring {
  Barrier full[STAGES], empty[STAGES];
  __device__ __forceinline__ void init(int warps_that_multiply) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + s, 1);
      barrier_init(empty + s, warps_that_multiply);
    }
  }
};

// Asks for a step. By one thread.
template <int BM>
__device__ __forceinline__ void load(Half* stage, const CUtensorMap* a_map, const CUtensorMap* b_map, Barrier* full,
                                     int row, int column, int step) {
  barrier_expect(full, (BM + BN) * BK * sizeof(Half));
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
// its threads may ask for the operands of a later step.
#define BM 128
#define STAGES 4
extern "C" __global__ void __launch_bounds__(2 * WARPGROUP, 1)
    all_alike(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  __shared__ Ring<STAGES> ring;
  const Corner<BM, BN, TILE_ROWS / BM> corner(blockIdx.x, m, n);
  const int steps = parts(k, BK), group = threadIdx.x / WARPGROUP;
  constexpr int STAGE = (BM + BN) * BK;
  auto ask = [&](int step) {
    if (threadIdx.x == 0 && step < steps)
      load<BM>(stages + step % STAGES * STAGE, &a_map, &b_map, ring.full + step % STAGES, corner.row, corner.column,
               step);
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
    product_wait<1>();
    __syncthreads();  // all products of the step before are done, and its place is free
    if (step > 0) ask(step - 1 + STAGES);
  }
  product_wait<0>();
  registers_fence(d);
  store(out, corner.row + group * 64, corner.column, m, n, d);
}
#undef BM
#undef STAGES

// One warpgroup asks for operands and has few registers; two multiply. TOGETHER: each multiplies 64 rows of every tile.
// Otherwise every second tile is of one of them: while one stores, the other multiplies. A block takes every
// gridDim.x-th tile, and goes on asking for the next tile's operands while this one's results are stored.
template <int BM, int STAGES, bool TOGETHER>
__device__ __forceinline__ void by_roles(const CUtensorMap* a_map, const CUtensorMap* b_map, Half* out, int m, int n,
                                         int k) {
  typedef Corner<BM, BN, TILE_ROWS / BM> Place;
  __shared__ Ring<STAGES> ring;
  __shared__ Barrier turns[2];
  constexpr int STAGE = (BM + BN) * BK;
  const int steps = parts(k, BK), tiles = parts(m, BM) * parts(n, BN);
  if (threadIdx.x == 0) {
    ring.init(TOGETHER ? 2 * WARPS : WARPS);
    for (int w = 0; w < 2; ++w) barrier_init(turns + w, WARPS);
    barrier_init_fence();
  }
  __syncthreads();  // the only time that all roles meet

  if (threadIdx.x < WARPGROUP) {
    registers_down();
    if (threadIdx.x != 0) return;
    int i = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const Place corner(tile, m, n);
      for (int step = 0; step < steps; ++step, ++i) {
        barrier_wait(ring.empty + i % STAGES, (i / STAGES & 1) ^ 1);  // in round 0 the places are empty
        load<BM>(stages + i % STAGES * STAGE, a_map, b_map, ring.full + i % STAGES, corner.row, corner.column, step);
      }
    }
    return;
  }

  registers_up();
  const int group = threadIdx.x / WARPGROUP - 1;
  const bool tells = threadIdx.x % 32 == 0;  // for its warp, all of which has waited when it has multiplied
  int number = 0;                            // of the tile, among those of this block
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++number) {
    if (!TOGETHER && number % 2 != group) continue;
    float d[128];
#pragma unroll
    for (int j = 0; j < 128; ++j) d[j] = 0;
    // Take turns: a warpgroup starts a tile when the other one has all operands of the tile before. Without this, one
    // could look at a place two rounds early, which the parity does not tell. The first tile needs no turn.
    if (!TOGETHER && number > 0) barrier_wait(turns + group, (number - 1) / 2 & 1);
    int i = number * steps;
    for (int step = 0; step < steps; ++step, ++i) {
      const Half* stage = stages + i % STAGES * STAGE;
      barrier_wait(ring.full + i % STAGES, i / STAGES & 1);
      multiply(d, stage + (TOGETHER ? group * 64 * BK : 0), stage + BM * BK);
      product_wait<1>();
      if (step > 0 && tells) barrier_arrive(ring.empty + (i - 1) % STAGES);
    }
    if (!TOGETHER && tells) barrier_arrive(turns + (1 - group));
    product_wait<0>();
    registers_fence(d);
    if (tells) barrier_arrive(ring.empty + (i - 1) % STAGES);
    const Place corner(tile, m, n);
    store(out, corner.row + (TOGETHER ? group * 64 : 0), corner.column, m, n, d);
  }
}

extern "C" __global__ void __launch_bounds__(3 * WARPGROUP, 1)
    specialized(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
                int n, int k) {
  by_roles<128, 4, true>(&a_map, &b_map, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(3 * WARPGROUP, 1)
    ping_pong(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  by_roles<64, 5, false>(&a_map, &b_map, out, m, n, k);
}
