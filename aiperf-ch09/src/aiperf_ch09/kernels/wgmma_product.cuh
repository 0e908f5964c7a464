// A matrix product C = A B^T by wgmma: a ring of stages in shared memory that TMA fills, roles of warps, clusters, and
// results that leave by TMA. For operands of one or two bytes; a step of k is 128 bytes, a row of TMA's swizzle.
#pragma once
#include "tensor_cores.cuh"

#define BM 128          // rows of a block's tile: 64 for each of two warpgroups
#define STEP_BYTES 128  // of k
#define WARPGROUP 128   // threads, which multiply 64 rows together
#define WARPS 4         // of a warpgroup
#define TILE_ROWS 2048  // of C that are walked together: 132 tiles at once are then about square
#define PIECE (64 * 64) // elements of C that a warpgroup stores at a time by TMA

extern __shared__ __align__(1024) Half stages[];

__device__ __forceinline__ constexpr int stage_bytes(int columns) { return (BM + columns) * STEP_BYTES; }

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
template <class T, int BN, int CLUSTER>
__device__ __forceinline__ void load(char* stage, const CUtensorMap* a_map, const CUtensorMap* b_map, Barrier* full,
                                     int row, int column, int step) {
  const int k = step * (STEP_BYTES / (int)sizeof(T));
  barrier_expect(full, stage_bytes(BN));
  tensor_load(stage, a_map, k, row, full);
  if (CLUSTER == 1) {
    tensor_load(stage + BM * STEP_BYTES, b_map, k, column, full);
  } else {
    const int first = blockIdx.x % CLUSTER * (BN / CLUSTER);
    tensor_load_all(stage + (BM + first) * STEP_BYTES, b_map, k, column + first, full, (1 << CLUSTER) - 1);
  }
}

// Stores a warpgroup's 64 rows of a tile by TMA, in pieces of 64 columns that take turns in two places of shared memory. Four matrices of 8 x 8 are 16
// rows of 16 columns. The last piece may be on its way when the next tile is multiplied.
template <int N>
__device__ __forceinline__ void store_by_engine(const CUtensorMap* out_map, Half* places, int row, int column,
                                                const float (&d)[N]) {
  const int lane = threadIdx.x % 32, r = threadIdx.x % WARPGROUP / 32 * 16 + lane % 16;
  const bool asks = threadIdx.x % WARPGROUP == 0;
#pragma unroll
  for (int piece = 0; piece < N / 32; ++piece) {
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

// One warpgroup asks for operands and has few registers; two multiply 64 rows of every tile each. The tile of a cluster
// has BM rows for each of its blocks. A cluster takes the tiles of its number, that plus the number of clusters, and so
// on; it goes on asking for the next tile's operands while the results of this one are stored. `multiply(a, b, step, row,
// column)` starts the products of a step, and returns when at most UNDER_WAY steps are not done; `store(row, column)`
// takes the results of a tile.
template <class T, int BN, int CLUSTER, int STAGES, int UNDER_WAY, class Multiply, class Store>
__device__ __forceinline__ void by_roles(const CUtensorMap* a_map, const CUtensorMap* b_map, int m, int n, int k,
                                         Multiply multiply, Store store) {
  typedef Corner<CLUSTER * BM, BN, TILE_ROWS / BM / CLUSTER> Place;
  __shared__ Ring<STAGES> ring;
  char* const places = (char*)stages;
  const int steps = parts(k, STEP_BYTES / (int)sizeof(T)), tiles = parts(m, CLUSTER * BM) * parts(n, BN);
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
        load<T, BN, CLUSTER>(places + i % STAGES * stage_bytes(BN), a_map, b_map, ring.full + i % STAGES,
                             corner.row + mine, corner.column, step);
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
      const Place corner(tile, m, n);
      const int row = corner.row + mine + group * 64;
      for (int step = 0; step < steps; ++step, ++i) {
        const char* stage = places + i % STAGES * stage_bytes(BN);
        barrier_wait(ring.full + i % STAGES, i / STAGES & 1);
        multiply((const T*)(stage + group * 64 * STEP_BYTES), (const T*)(stage + BM * STEP_BYTES), step, row,
                 corner.column);
        if (step >= UNDER_WAY) tell(i - UNDER_WAY);
      }
      product_wait<0>();
      if (UNDER_WAY) tell(i - 1);
      store(row, corner.column);
    }
    if (threadIdx.x % WARPGROUP == 0) bulk_wait<0>();  // of stores by TMA, if there are any
  }
  if (CLUSTER > 1) cluster_sync();  // no block ends while another writes to it or arrives at its barriers
}
