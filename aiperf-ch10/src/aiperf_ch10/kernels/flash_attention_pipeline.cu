// Causal attention of bfloat16 by wgmma, for heads of 128 columns, with operands that TMA brings. A block has 128 queries
// of a head, 64 for each of two warpgroups, and passes over their keys from the diagonal to the first. Scores stay in
// registers, where they become the left operand of the product with the values. The kernels differ in who asks for keys
// and values, and in what the tensor cores do while exponentials are computed.
#include "tiles.cuh"

#define WIDTH 128            // columns of a head
#define ROWS 128             // queries of a block, and keys of a step
#define BOX (64 * ROWS)      // elements of rows of 128 bytes: a row of TMA's swizzle
#define TILE (2 * BOX)       // elements of ROWS rows of a head
#define PLACES 4             // of the ring: two for keys, two for values
#define SCALE 0.1275174308f  // log2(e) / sqrt(WIDTH)

extern __shared__ __align__(1024) Half tiles[];  // queries, and the places for keys and values

// Asks for rows of a head; zeros beyond its last. By one thread, which has said how many bytes `full` waits for.
__device__ __forceinline__ void load(Half* to, const CUtensorMap* map, int row, int head, Barrier* full) {
  tensor_load(to, map, 0, row, head, full);
  tensor_load(to + BOX, map, 64, row, head, full);
}

// Starts the products of 64 queries and 128 keys.
__device__ __forceinline__ void multiply_keys(float (&scores)[64], const Half* queries, const Half* keys) {
  registers_fence(scores);
  product_fence();
#pragma unroll
  for (int k = 0; k < WIDTH; k += 16) {
    const int at = k / 64 * BOX + k % 64;
    multiply_64x128x16(scores, operand(queries + at), operand(keys + at), k > 0);
  }
  product_commit();
  registers_fence(scores);
}

// Starts the sums of 128 values, by their shares.
__device__ __forceinline__ void multiply_values(float (&sums)[64], unsigned int (&shares)[8][4], const Half* values,
                                                bool first) {
  registers_fence(sums);
  registers_fence(shares);
  product_fence();
#pragma unroll
  for (int i = 0; i < 8; ++i)
    multiply_64x128x16(sums, shares[i], operand_by_columns(values + i * 16 * 64, BOX * sizeof(Half)), i > 0 || !first);
  product_commit();
  registers_fence(sums);
}

// The queries of a warpgroup. A thread has two of them, row and row + 8 of the block, and 32 of 128 columns of each:
// element i of an array of 64 belongs to query i / 2 % 2.
struct Queries {
  int group, row;
  float largest[2], total[2], factor[2];  // of scores; of a thread's shares; by which sums so far become smaller

  __device__ __forceinline__ Queries(int group) : group(group) {
    row = group * 64 + threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4;
    for (int r = 0; r < 2; ++r) largest[r] = __uint_as_float(0xff800000), total[r] = 0;
  }
  __device__ __forceinline__ int column(int i) const { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

  // On the diagonal: hides the keys behind a query.
  __device__ __forceinline__ void hide(float (&scores)[64]) const {
#pragma unroll
    for (int i = 0; i < 64; ++i)
      if (column(i) > row + i / 2 % 2 * 8) scores[i] = __uint_as_float(0xff800000);
  }
  // Scores become shares of a sum that is divided at the end. A query has at least one key in its first block, itself.
  __device__ __forceinline__ void powers(float (&scores)[64]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = largest[r], sum = 0;
#pragma unroll
      for (int i = 2 * r; i < 64; i += 4) most = fmaxf(most, fmaxf(scores[i], scores[i + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      factor[r] = power_of_2((largest[r] - most) * SCALE);
      largest[r] = most;
#pragma unroll
      for (int i = 2 * r; i < 64; i += 4)
#pragma unroll
        for (int j = i; j < i + 2; ++j) sum += scores[j] = power_of_2(fmaf(scores[j], SCALE, -most * SCALE));
      total[r] = total[r] * factor[r] + sum;
    }
  }
  __device__ __forceinline__ void rescale(float (&sums)[64]) const {
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] *= factor[i / 2 % 2];
  }
  __device__ __forceinline__ void store(Half* out, int first, int length, float (&sums)[64]) {
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[r] += __shfl_xor_sync(~0u, total[r], 1);
      total[r] += __shfl_xor_sync(~0u, total[r], 2);
      inverse[r] = 1 / total[r];
    }
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
      const float by = inverse[i / 2 % 2];
      store_pair(out, first + row + i / 2 % 2 * 8, column(i), length, WIDTH, sums[i] * by, sums[i + 1] * by);
    }
  }
};

// An accumulator's registers are those of a left operand: 16 columns are eight of its elements.
__device__ __forceinline__ void pack(unsigned int (&shares)[8][4], const float (&scores)[64]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) shares[i / 4][i % 4] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
}

// The head of a block, and its queries. Blocks of a head follow each other, so that they find its keys in L2, and those
// with the most keys come first.
struct Place {
  int head, tile;
  __device__ __forceinline__ Place(int length) {
    const int across = parts(length, ROWS);
    head = blockIdx.x / across, tile = across - 1 - blockIdx.x % across;
  }
};
__device__ __forceinline__ Half* of_head(Half* out, int head, int length) {
  return out + head * (long long)length * WIDTH;
}

// All warps do everything, and each step waits for its copies, its scores, its shares and its sums in turn.
extern "C" __global__ void __launch_bounds__(2 * WARPGROUP, 1)
    one_stage(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap keys_map,
              const __grid_constant__ CUtensorMap values_map, Half* out, int length) {
  __shared__ Barrier full;
  const Place place(length);
  Half *const keys = tiles + TILE, *const values = tiles + 2 * TILE;
  auto ask = [&](int block) {
    if (threadIdx.x != 0 || block < 0) return;
    barrier_expect(&full, (block == place.tile ? 3 : 2) * TILE * sizeof(Half));
    if (block == place.tile) load(tiles, &q_map, block * ROWS, place.head, &full);
    load(keys, &keys_map, block * ROWS, place.head, &full);
    load(values, &values_map, block * ROWS, place.head, &full);
  };
  if (threadIdx.x == 0) {
    barrier_init(&full, 1);
    barrier_init_fence();
  }
  __syncthreads();  // no thread waits for a barrier before it is initialised
  ask(place.tile);
  Queries queries(threadIdx.x / WARPGROUP);
  float scores[64], sums[64];
  unsigned int shares[8][4];
  for (int block = place.tile; block >= 0; --block) {
    const bool first = block == place.tile;
    barrier_wait(&full, (place.tile - block) & 1);
    multiply_keys(scores, tiles + queries.group * 64 * 64, keys);
    product_wait<0>();
    registers_fence(scores);
    if (first) queries.hide(scores);
    queries.powers(scores);
    if (!first) queries.rescale(sums);
    pack(shares, scores);
    multiply_values(sums, shares, values, first);
    product_wait<0>();
    registers_fence(sums);
    __syncthreads();  // all have multiplied
    ask(block - 1);
  }
  queries.store(of_head(out, place.head, length), place.tile * ROWS, length, sums);
}

// One warpgroup asks for tiles and has few registers; two multiply. The ring's item 0 are the keys of step 0, item 2 i - 1
// those of step i, and item 2 i the values of the step before it: a step starts both products, of its scores and of the
// sums of the step before. After the last step there are no keys, and their item is left out.
template <bool TURNS, bool OVERLAP>
__device__ __forceinline__ void by_roles(const CUtensorMap* q_map, const CUtensorMap* keys_map,
                                         const CUtensorMap* values_map, Half* out, int length) {
  __shared__ Ring<PLACES> ring;
  __shared__ Barrier q_full;
  const Place place(length);
  const int steps = place.tile + 1;
  Half* const places = tiles + TILE;
  if (threadIdx.x == 0) {
    ring.init(2 * WARPS);
    barrier_init(&q_full, 1);
    barrier_init_fence();
  }
  __syncthreads();  // the only time that all roles meet

  if (threadIdx.x < WARPGROUP) {
    registers_down();
    if (threadIdx.x != 0) return;
    barrier_expect(&q_full, TILE * sizeof(Half));
    load(tiles, q_map, place.tile * ROWS, place.head, &q_full);
    for (int item = 0; item <= 2 * steps; ++item) {
      if (item == 2 * steps - 1) continue;
      const bool keys = item == 0 || item % 2 == 1;
      const int block = place.tile - (keys ? (item + 1) / 2 : item / 2 - 1), at = item % PLACES;
      barrier_wait(ring.empty + at, (item / PLACES & 1) ^ 1);  // in round 0 the places are empty
      barrier_expect(ring.full + at, TILE * sizeof(Half));
      load(places + at * TILE, keys ? keys_map : values_map, block * ROWS, place.head, ring.full + at);
    }
  } else {
    registers_up();
    Queries queries(threadIdx.x / WARPGROUP - 1);
    const Half* mine = tiles + queries.group * 64 * 64;
    auto wait = [&](int item) { barrier_wait(ring.full + item % PLACES, item / PLACES & 1); };
    auto of = [&](int item) { return places + item % PLACES * TILE; };
    // Says for the warp, all of which has waited when it has multiplied, that an item's place is empty.
    auto tell = [&](int item) {
      if (threadIdx.x % 32 == 0) barrier_arrive(ring.empty + item % PLACES);
    };
    float scores[64], sums[64];
    unsigned int shares[8][4];
    if (TURNS && queries.group == 1 && steps > 1) turn_give(0);
    barrier_wait(&q_full, 0);
    wait(0);
    multiply_keys(scores, mine, of(0));
    product_wait<0>();
    registers_fence(scores);
    tell(0);
    queries.hide(scores);
    queries.powers(scores);
    pack(shares, scores);
    wait(2);
    for (int step = 1; step < steps; ++step) {
      const int keys = 2 * step - 1, values = 2 * step;
      wait(keys);
      if (TURNS) turn_wait(queries.group);
      multiply_keys(scores, mine, of(keys));
      multiply_values(sums, shares, of(values), step == 1);
      // The products of the other are started behind these. The second has the last turn.
      if (TURNS && (queries.group == 0 || step + 1 < steps)) turn_give(1 - queries.group);
      product_wait<OVERLAP>();  // with overlap, the product of the sums goes on
      registers_fence(scores);
      tell(keys);
      queries.powers(scores);
      registers_fence(scores);
      wait(values + 2);  // the next values; without a loop here the assembler moves the wait below before the powers
      product_wait<0>();
      registers_fence(sums);
      tell(values);
      queries.rescale(sums);
      pack(shares, scores);
    }
    multiply_values(sums, shares, of(2 * steps), steps == 1);
    product_wait<0>();
    registers_fence(sums);
    queries.store(of_head(out, place.head, length), place.tile * ROWS, length, sums);
  }
}

extern "C" {
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    specialized(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap keys_map,
                const __grid_constant__ CUtensorMap values_map, Half* out, int length) {
  by_roles<false, false>(&q_map, &keys_map, &values_map, out, length);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    ping_pong(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap keys_map,
              const __grid_constant__ CUtensorMap values_map, Half* out, int length) {
  by_roles<true, false>(&q_map, &keys_map, &values_map, out, length);
}
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    overlapped(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap keys_map,
               const __grid_constant__ CUtensorMap values_map, Half* out, int length) {
  by_roles<true, true>(&q_map, &keys_map, &values_map, out, length);
}
}
