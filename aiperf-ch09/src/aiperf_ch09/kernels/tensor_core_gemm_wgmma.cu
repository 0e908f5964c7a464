// C = A B^T for bfloat16 by wgmma, with operands that TMA brings to a ring of stages in shared memory. Tiles of 128 x 256
// and two warpgroups that multiply 64 rows each are common to all kernels. They differ in how many stages are under way,
// who asks for them, and how operands come and results go.
#include "wgmma_product.cuh"

#define BN 256
#define BK 64  // elements of a step
#define STAGE (stage_bytes(BN) / (int)sizeof(Half))

// Starts the products of a step: 64 rows of A by 256 rows of B, 16 of k at a time.
__device__ __forceinline__ void multiply(float (&d)[128], const Half* a, const Half* b, bool first) {
  registers_fence(d);
  product_fence();
#pragma unroll
  for (int k = 0; k < BK; k += 16) multiply_64x256x16(d, operand(a + k), operand(b + k), k > 0 || !first);
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
    if (threadIdx.x == 0 && step < steps)
      load<Half, BN, 1>((char*)(stages + step % STAGES * STAGE), a_map, b_map, ring.full + step % STAGES, corner.row,
                        corner.column, step);
  };
  if (threadIdx.x == 0) {
    ring.init(1);
    for (int step = 0; step < STAGES; ++step) ask(step);
  }
  __syncthreads();  // no thread waits for a barrier before it is initialised
  float d[128];
  for (int step = 0; step < steps; ++step) {
    const Half* stage = stages + step % STAGES * STAGE;
    barrier_wait(ring.full + step % STAGES, step / STAGES & 1);
    multiply(d, stage + group * 64 * BK, stage + BM * BK, step == 0);
    product_wait<UNDER_WAY>();
    __syncthreads();  // all products but those under way are done, and the place of the last of them is free
    if (step >= UNDER_WAY) ask(step - UNDER_WAY + STAGES);
  }
  product_wait<0>();
  registers_fence(d);
  store(out, corner.row + group * 64, corner.column, m, n, d);
}

#define STAGES 4
template <int CLUSTER, bool BY_ENGINE>
__device__ __forceinline__ void specialists(const CUtensorMap* a_map, const CUtensorMap* b_map,
                                            const CUtensorMap* out_map, Half* out, int m, int n, int k) {
  float d[128];
  by_roles<Half, BN, CLUSTER, STAGES, 1>(
      a_map, b_map, m, n, k,
      [&](const Half* a, const Half* b, int step, int, int) {
        multiply(d, a, b, step == 0);
        product_wait<1>();
      },
      [&](int row, int column) {
        registers_fence(d);
        if (BY_ENGINE)
          store_by_engine(out_map, stages + STAGES * STAGE + (threadIdx.x / WARPGROUP - 1) * 2 * PIECE, row, column, d);
        else
          store(out, row, column, m, n, d);
      });
}

extern "C" {
__global__ void __launch_bounds__(2 * WARPGROUP, 1)
    one_stage(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  all_alike<1>(&a_map, &b_map, out, m, n, k);
}
__global__ void __launch_bounds__(2 * WARPGROUP, 1)
    pipelined(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  all_alike<4>(&a_map, &b_map, out, m, n, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    specialized(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
                int n, int k) {
  specialists<1, false>(&a_map, &b_map, nullptr, out, m, n, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    multicast(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  specialists<2, false>(&a_map, &b_map, nullptr, out, m, n, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    tma_store(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
              const __grid_constant__ CUtensorMap out_map, int m, int n, int k) {
  specialists<2, true>(&a_map, &b_map, &out_map, nullptr, m, n, k);
}
}
