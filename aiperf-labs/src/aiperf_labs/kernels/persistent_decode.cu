// A gated recurrent unit, step by step: products of the state with three matrices of bfloat16, whose inputs from outside are
// in `drive`. A block has ROWS rows of each matrix. Steps are launches of their own, or one launch for all of them.
#include <cstdint>

#define THREADS 256
#define WARPS (THREADS / 32)
#define ROWS 16  // of the state, for each block
#define GATES 3  // reset, update, new

extern __shared__ uint4 memory[];  // the state, and behind it the weights that stay

__device__ __forceinline__ float low(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }

// Eight weights times eight numbers of the state.
__device__ __forceinline__ float eight(uint4 w, float4 a, float4 b, float sum) {
  sum = fmaf(low(w.x), a.x, fmaf(high(w.x), a.y, sum));
  sum = fmaf(low(w.y), a.z, fmaf(high(w.y), a.w, sum));
  sum = fmaf(low(w.z), b.x, fmaf(high(w.z), b.y, sum));
  return fmaf(low(w.w), b.z, fmaf(high(w.w), b.w, sum));
}

// The block's rows of the next state. Row r of gate g is `w + (g * gate_rows + r) * width / 8`, in shared memory or, past L1,
// in L2, where the steps of separate launches find it too.
template <bool KEPT>
__device__ __forceinline__ void next_state(float* out, const float* from, const float* drive, const uint4* w,
                                           int64_t gate_rows, int width) {
  float4* state = reinterpret_cast<float4*>(memory);
  for (int i = threadIdx.x; i < width / 4; i += THREADS) state[i] = __ldcg(reinterpret_cast<const float4*>(from) + i);
  __syncthreads();
  const int lane = threadIdx.x % 32, words = width / 8;
  for (int r = threadIdx.x / 32; r < ROWS; r += WARPS) {
    const int row = blockIdx.x * ROWS + r;
    if (row >= width) break;
    float sums[GATES] = {0, 0, 0};
#pragma unroll 4
    for (int word = lane; word < words; word += 32) {
      const float4 a = state[2 * word], b = state[2 * word + 1];
#pragma unroll
      for (int g = 0; g < GATES; ++g) {
        const uint4* at = w + (g * gate_rows + r) * words + word;
        sums[g] = eight(KEPT ? *at : __ldcg(at), a, b, sums[g]);
      }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
      for (int g = 0; g < GATES; ++g) sums[g] += __shfl_xor_sync(~0u, sums[g], offset);
    if (lane == 0) {
      const float reset = sigmoid(drive[row] + sums[0]), update = sigmoid(drive[width + row] + sums[1]);
      const float fresh = tanhf(drive[2 * width + row] + reset * sums[2]);
      out[row] = fmaf(update, reinterpret_cast<float*>(memory)[row] - fresh, fresh);
    }
  }
}

// The first of the block's rows in each matrix.
__device__ __forceinline__ const uint4* own_rows(const unsigned short* weights, int width) {
  return reinterpret_cast<const uint4*>(weights) + blockIdx.x * (int64_t)ROWS * (width / 8);
}

// A step as a launch.
extern "C" __global__ void __launch_bounds__(THREADS)
    one_step(float* out, const float* from, const float* drive, const unsigned short* weights, int width) {
  next_state<false>(out, from, drive, own_rows(weights, width), width, width);
}

// A barrier of all blocks, which are on the chip together; `arrived` is 0 before the first.
__device__ __forceinline__ void meet_all(unsigned int* arrived, unsigned int times) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*(volatile unsigned int*)arrived < times * gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
}

template <bool KEPT>
__device__ __forceinline__ void all_steps(float* out, const float* first, const float* drive, const unsigned short* weights,
                                          unsigned int* arrived, int steps, int width) {
  const uint4* w = own_rows(weights, width);
  if (KEPT) {
    uint4* kept = memory + width / 4;
    const int words = width / 8, rows = min(ROWS, width - (int)blockIdx.x * ROWS);
    for (int g = 0; g < GATES; ++g)
      for (int i = threadIdx.x; i < rows * words; i += THREADS)
        kept[g * ROWS * words + i] = w[(int64_t)g * width * words + i];
    w = kept;
  }
  for (int step = 0; step < steps; ++step) {
    const float* from = step ? out + (step - 1) * (int64_t)width : first;
    next_state<KEPT>(out + step * (int64_t)width, from, drive + step * (int64_t)GATES * width, w, KEPT ? ROWS : width, width);
    if (step + 1 < steps) meet_all(arrived, step + 1);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    steps_from_cache(float* out, const float* first, const float* drive, const unsigned short* weights,
                     unsigned int* arrived, int steps, int width) {
  all_steps<false>(out, first, drive, weights, arrived, steps, width);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    steps_resident(float* out, const float* first, const float* drive, const unsigned short* weights,
                   unsigned int* arrived, int steps, int width) {
  all_steps<true>(out, first, drive, weights, arrived, steps, width);
}
