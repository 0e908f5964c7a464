// C = A B^T for bfloat16 by wgmma, with operands that TMA brings to a ring of stages in shared memory. Tiles of 128 x 256
// and two warpgroups that multiply 64 rows each are common to all kernels. They differ in how many stages are under way,
// who asks for them, and how operands come and results go.
#include "tensor_cores.cuh"

#define BM 128
#define BN 256
#define BK 64           // 128 bytes: a row of TMA's swizzle
#define WARPGROUP 128   // threads, which multiply 64 rows together
#define WARPS 4         // of a warpgroup
#define TILE_ROWS 2048  // of C that are walked together: 132 tiles at once are then about square

#define STAGE ((BM + BN) * BK)  // elements of a step: BM rows of A, 256 rows of B
#define PIECE (64 * 64)         // elements of C that a warpgroup stores at a time by TMA

extern __shared__ __align__(1024) Half stages[];

// Waits of all kernels end. Steps are numbered through all tiles of a block: step i uses place i % STAGES in round i /
// STAGES. A round of `full` is completed by TMA, which counts boxes beyond the edges as full too. A round of `empty` is
// completed by the warps that multiply, and these wait for nothing but `full`. Steps are asked for in the order in which
// they are multiplied, so that the oldest place that is not empty always belongs to products that are under way. The
// parity of a round is enough to tell it from its neighbours, because no place begins a round before all warps that wait
// for the last one have seen it. In a cluster, a place is empty when it is empty in all blocks: each of them writes to
// all. A block that is ahead may write to one that has not yet said how many bytes it expects; its round does not end
// before it does.
template <int STAGES>
struct Ring {
  Barrier full[STAGES], empty[STAGES];
  __device__ __forceinline__ void init(int warps_that_multiply) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + s, 1);
      barrier_init(empty + s, warps_that_multiply);
    }
    barrier_init_fence();
  }
};

// Asks for a step. By one thread. In a cluster, which has a tile of several times BM rows, each block asks for a part of
// the rows of B, for all blocks.
template <int CLUSTER>
__device__ __forceinline__ void load(Half* stage, const CUtensorMap* a_map, const CUtensorMap* b_map, Barrier* full,
                                     int row, int column, int step) {
  barrier_expect(full, STAGE * sizeof(Half));
  tensor_load(stage, a_map, step * BK, row, full);
  if (CLUSTER == 1) {
    tensor_load(stage + BM * BK, b_map, step * BK, column, full);
  } else {
    const int first = blockIdx.x % CLUSTER * (BN / CLUSTER);
    tensor_load_all(stage + (BM + first) * BK, b_map, step * BK, column + first, full, (1 << CLUSTER) - 1);
  }
}

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

// The same by TMA, in pieces of 64 columns that take turns in two places of shared memory. Four matrices of 8 x 8 are 16
// rows of 16 columns. The last piece may be on its way when the next tile is multiplied.
__device__ __forceinline__ void store_by_engine(const CUtensorMap* out_map, Half* places, int row, int column,
                                                const float (&d)[128]) {
  const int lane = threadIdx.x % 32, r = threadIdx.x % WARPGROUP / 32 * 16 + lane % 16;
  const bool asks = threadIdx.x % WARPGROUP == 0;
#pragma unroll
  for (int piece = 0; piece < BN / 64; ++piece) {
    Half* to = places + piece % 2 * PIECE;
    if (asks) bulk_wait_read<1>();
    warpgroup_sync();  // the piece before the last has left this place
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* of = d + piece * 32 + j * 8;
      store_matrices(to + place(r, 2 * j + lane / 16), pack_bf16(of[0], of[1]), pack_bf16(of[2], of[3]),
                     pack_bf16(of[4], of[5]), pack_bf16(of[6], of[7]));
    }
    fence_for_copy_engine();
    warpgroup_sync();  // the piece is whole
    if (asks) {
      tensor_store(out_map, column + 64 * piece, row, to);
      bulk_commit();
    }
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
      load<1>(stages + step % STAGES * STAGE, a_map, b_map, ring.full + step % STAGES, corner.row, corner.column, step);
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

// One warpgroup asks for operands and has few registers; two multiply 64 rows of every tile each. The tile of a cluster
// has BM rows for each of its blocks. A cluster takes the tiles of its number, that plus the number of clusters, and so
// on; it goes on asking for the next tile's operands while the results of this one are stored.
#define STAGES 4
template <int CLUSTER, bool BY_ENGINE>
__device__ __forceinline__ void by_roles(const CUtensorMap* a_map, const CUtensorMap* b_map, const CUtensorMap* out_map,
                                         Half* out, int m, int n, int k) {
  typedef Corner<CLUSTER * BM, BN, TILE_ROWS / BM / CLUSTER> Place;
  __shared__ Ring<STAGES> ring;
  const int steps = parts(k, BK), tiles = parts(m, CLUSTER * BM) * parts(n, BN);
  const int first = blockIdx.x / CLUSTER, every = gridDim.x / CLUSTER, mine = blockIdx.x % CLUSTER * BM;
  if (threadIdx.x == 0) ring.init(CLUSTER * 2 * WARPS);
  if (CLUSTER == 1) __syncthreads();
  if (CLUSTER > 1) cluster_sync();  // barriers of all blocks are initialised

  if (threadIdx.x < WARPGROUP) {
    registers_down();
    int i = 0;
    for (int tile = first; threadIdx.x == 0 && tile < tiles; tile += every) {
      const Place corner(tile, m, n);
      for (int step = 0; step < steps; ++step, ++i) {
        barrier_wait(ring.empty + i % STAGES, (i / STAGES & 1) ^ 1);  // in round 0 the places are empty
        load<CLUSTER>(stages + i % STAGES * STAGE, a_map, b_map, ring.full + i % STAGES, corner.row + mine,
                      corner.column, step);
      }
    }
  } else {
    registers_up();
    const int group = threadIdx.x / WARPGROUP - 1, lane = threadIdx.x % 32;
    // Says for the warp, all of which has waited when it has multiplied, that a step's place is empty.
    auto tell = [&](int step) {
      if (CLUSTER == 1 && lane == 0) barrier_arrive(ring.empty + step % STAGES);
      if (CLUSTER > 1 && lane < CLUSTER) barrier_arrive(ring.empty + step % STAGES, lane);
    };
    int i = 0;
    for (int tile = first; tile < tiles; tile += every) {
      float d[128];
      for (int step = 0; step < steps; ++step, ++i) {
        const Half* stage = stages + i % STAGES * STAGE;
        barrier_wait(ring.full + i % STAGES, i / STAGES & 1);
        multiply(d, stage + group * 64 * BK, stage + BM * BK, step == 0);
        product_wait<1>();
        if (step > 0) tell(i - 1);
      }
      product_wait<0>();
      registers_fence(d);
      tell(i - 1);
      const Place corner(tile, m, n);
      const int row = corner.row + mine + group * 64;
      if (BY_ENGINE)
        store_by_engine(out_map, stages + STAGES * STAGE + group * 2 * PIECE, row, corner.column, d);
      else
        store(out, row, corner.column, m, n, d);
    }
    if (BY_ENGINE && threadIdx.x % WARPGROUP == 0) bulk_wait<0>();
  }
  if (CLUSTER > 1) cluster_sync();  // no block ends while another writes to it or arrives at its barriers
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
  by_roles<1, false>(&a_map, &b_map, nullptr, out, m, n, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    multicast(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, Half* out, int m,
              int n, int k) {
  by_roles<2, false>(&a_map, &b_map, nullptr, out, m, n, k);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    tma_store(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
              const __grid_constant__ CUtensorMap out_map, int m, int n, int k) {
  by_roles<2, true>(&a_map, &b_map, &out_map, nullptr, m, n, k);
}
}
