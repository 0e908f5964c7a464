// y = down (silu(gate x) * (up x)) for one token, in bfloat16 with float32 sums. A warp has a row of a matrix at a time, and
// every lane 16 bytes of each 512. All kernels have the same products; they differ in what follows without a launch.
#include "grid_barrier.cuh"
#include "instructions.cuh"

#define WARP 32
#define THREADS 512
#define PER_SM 2  // blocks, whose lanes have 128 KB under way
#define AT_ONCE 8 // pieces of a lane

typedef unsigned short Half;

__device__ __forceinline__ float low(unsigned int pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(unsigned int pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ float silu(float v) { return v / (1 + __expf(-v)); }
__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  return total;
}
// Rows go round the blocks first: what is left of the last round is spread over all SMs.
__device__ __forceinline__ int first_row() { return threadIdx.x / WARP * gridDim.x + blockIdx.x; }
__device__ __forceinline__ int rows_apart() { return THREADS / WARP * gridDim.x; }

// N pieces of eight elements of this lane, 32 pieces apart from `first` on. What is beyond the row is zero.
template <int N>
struct Pieces {
  uint4 of[N];
};
template <int N>
__device__ __forceinline__ Pieces<N> loaded(const Half* row, int columns, int first) {
  Pieces<N> all;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int piece = first + i * WARP + threadIdx.x % WARP;
    all.of[i] = make_uint4(0, 0, 0, 0);
    if (piece < columns / 8) all.of[i] = __ldcs(reinterpret_cast<const uint4*>(row) + piece);
  }
  return all;
}
__device__ __forceinline__ float pair_product(unsigned int w, unsigned int x, float sum) {
  return fmaf(high(w), high(x), fmaf(low(w), low(x), sum));
}
template <int N>
__device__ __forceinline__ float products(const Pieces<N>& w, const Half* x, int columns, int first, float sum) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int piece = first + i * WARP + threadIdx.x % WARP;
    if (piece >= columns / 8) break;  // a branch, before which the assembler leaves all loads of w
    const uint4 v = reinterpret_cast<const uint4*>(x)[piece], of = w.of[i];
    sum = pair_product(of.x, v.x, pair_product(of.y, v.y, pair_product(of.z, v.z, pair_product(of.w, v.w, sum))));
  }
  return sum;
}

__device__ __forceinline__ Pieces<AT_ONCE> first_pieces(const Half* w, int rows, int columns) {
  const int row = first_row();
  return loaded<AT_ONCE>(w + (row < rows ? row : 0) * (long long)columns, row < rows ? columns : 0, 0);
}
// y = W x. `own` are the first pieces of the warp's first row.
__device__ __forceinline__ void multiply(Half* y, Pieces<AT_ONCE> own, const Half* w, const Half* x, int rows,
                                         int columns) {
  for (int row = first_row(); row < rows; row += rows_apart()) {
    const Half* from = w + row * (long long)columns;
    if (row != first_row()) own = loaded<AT_ONCE>(from, columns, 0);
    float sum = 0;
    for (int first = 0; first < columns / 8; first += AT_ONCE * WARP) {
      if (first) own = loaded<AT_ONCE>(from, columns, first);
      sum = products(own, x, columns, first, sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) y[row] = to_bf16(sum);
  }
}
// h = silu(gate x) * (up x). A warp has a row of both matrices.
__device__ __forceinline__ void multiply_both(Half* h, const Half* gate, const Half* up, const Half* x, int hidden,
                                              int width) {
  for (int row = first_row(); row < hidden; row += rows_apart()) {
    const long long from = row * (long long)width;
    float of_gate = 0, of_up = 0;
    for (int first = 0; first < width / 8; first += AT_ONCE / 2 * WARP) {
      const Pieces<AT_ONCE / 2> g = loaded<AT_ONCE / 2>(gate + from, width, first);
      const Pieces<AT_ONCE / 2> u = loaded<AT_ONCE / 2>(up + from, width, first);
      of_gate = products(g, x, width, first, of_gate), of_up = products(u, x, width, first, of_up);
    }
    of_gate = warp_sum(of_gate), of_up = warp_sum(of_up);
    if (threadIdx.x % WARP == 0) h[row] = to_bf16(silu(of_gate) * of_up);
  }
}

template <bool AHEAD>
__device__ __forceinline__ void whole(Half* y, Half* h, const Half* x, const Half* gate, const Half* up,
                                      const Half* down, unsigned long long* arrived, int width, int hidden) {
  unsigned long long until = 0;
  Pieces<AT_ONCE> own;
  multiply_both(h, gate, up, x, hidden, width);
  if (AHEAD) own = first_pieces(down, width, hidden);
  grid_sync(arrived, until);
  if (!AHEAD) own = first_pieces(down, width, hidden);
  multiply(y, own, down, h, width, hidden);
}

extern "C" {
__global__ void __launch_bounds__(THREADS, PER_SM) product(Half* y, const Half* w, const Half* x, int rows, int columns) {
  multiply(y, first_pieces(w, rows, columns), w, x, rows, columns);
}
__global__ void __launch_bounds__(THREADS) gated(Half* h, const Half* gate, const Half* up, int hidden) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < hidden) h[i] = to_bf16(silu(from_bf16(gate[i])) * from_bf16(up[i]));
}
__global__ void __launch_bounds__(THREADS, PER_SM)
    gate_and_up(Half* h, const Half* gate, const Half* up, const Half* x, int hidden, int width) {
  multiply_both(h, gate, up, x, hidden, width);
}
__global__ void __launch_bounds__(THREADS, PER_SM)
    one_launch(Half* y, Half* h, const Half* x, const Half* gate, const Half* up, const Half* down,
               unsigned long long* arrived, int width, int hidden) {
  whole<false>(y, h, x, gate, up, down, arrived, width, hidden);
}
__global__ void __launch_bounds__(THREADS, PER_SM)
    weights_ahead(Half* y, Half* h, const Half* x, const Half* gate, const Half* up, const Half* down,
                  unsigned long long* arrived, int width, int hidden) {
  whole<true>(y, h, x, gate, up, down, arrived, width, hidden);
}
}
