// A layer of one token: h = x / rms(x); y = W h, W of bfloat16; x = x + silu(y). As three kernels, which may start before the
// kernel before them ends, and as one kernel for all layers.
#define THREADS 512
#define WARPS (THREADS / 32)
#define ROWS 16  // of a block, whose warps each have 128 columns: at most 2048 columns
#define TINY 1e-6f

__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Before a kernel touches what the one before it has written. Without an edge for early starts it does nothing.
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  return total;
}

// This thread's four columns of ROWS rows of W, as pairs of bfloat16. What is beyond the matrix is zero.
struct Weights {
  uint2 pairs[ROWS];
};
__device__ __forceinline__ Weights loaded(const unsigned short* w, int width) {
  Weights all;
  const int column = 4 * threadIdx.x, row = blockIdx.x * ROWS;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    all.pairs[r] = make_uint2(0, 0);
    if (row + r < width && column < width)
      // Not .nc, whose loads the assembler puts behind a wait that follows.
      asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                   : "=r"(all.pairs[r].x), "=r"(all.pairs[r].y)
                   : "l"(w + (long long)(row + r) * width + column));
  }
  return all;
}
__device__ __forceinline__ float4 columns_of(const float* x, int width) {
  const int column = 4 * threadIdx.x;
  return column < width ? __ldcg(reinterpret_cast<const float4*>(x + column)) : make_float4(0, 0, 0, 0);
}
__device__ __forceinline__ float low(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }

// Products of the block's rows with the columns of a warp, and the sum of the squares of x in those.
struct Parts {
  float of[ROWS + 1][WARPS];
};
__device__ __forceinline__ void multiply(const Weights& w, float4 x, Parts& parts) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sums[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    sums[r] = fmaf(low(w.pairs[r].x), x.x, fmaf(high(w.pairs[r].x), x.y,
              fmaf(low(w.pairs[r].y), x.z, high(w.pairs[r].y) * x.w)));
  // Lanes exchange halves of their rows, so that 16 sums take 16 shuffles and not 80: lane l ends with row l / 2.
#pragma unroll
  for (int half = ROWS / 2; half > 0; half /= 2) {
    const bool upper = lane & (2 * half);
#pragma unroll
    for (int r = 0; r < half; ++r) {
      const float mine = upper ? sums[r + half] : sums[r], other = upper ? sums[r] : sums[r + half];
      sums[r] = mine + __shfl_xor_sync(~0u, other, 2 * half);
    }
  }
  const float sum = sums[0] + __shfl_xor_sync(~0u, sums[0], 1);
  const float own = warp_sum(x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w);
  if (lane % 2 == 0) parts.of[lane / 2][warp] = sum;
  if (lane == 0) parts.of[ROWS][warp] = own;
}
__device__ __forceinline__ float total_of(const Parts& parts, int row) {
  float total = 0;
#pragma unroll
  for (int k = 0; k < WARPS; ++k) total += parts.of[row][k];
  return total;
}
__device__ __forceinline__ float silu(float y) { return y / (1 + __expf(-y)); }

// One block.
extern "C" __global__ void __launch_bounds__(THREADS) normalise(float* h, const float* x, int width) {
  __shared__ float parts[WARPS];
  let_next_start();
  await_previous();
  const float4 own = columns_of(x, width);
  const float squares = warp_sum(own.x * own.x + own.y * own.y + own.z * own.z + own.w * own.w);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int k = 0; k < WARPS; ++k) total += parts[k];
  const float factor = rsqrtf(total / width + TINY);
  if (4 * threadIdx.x < width)
    reinterpret_cast<float4*>(h)[threadIdx.x] =
        make_float4(own.x * factor, own.y * factor, own.z * factor, own.w * factor);
}

// With `AHEAD`, a block has its weights, which no kernel writes, before it waits for h.
template <bool AHEAD>
__global__ void __launch_bounds__(THREADS) gemv(float* y, const float* h, const unsigned short* w, int width) {
  let_next_start();
  if (!AHEAD) await_previous();
  const Weights own = loaded(w, width);
  if (AHEAD) await_previous();
  __shared__ Parts parts;
  multiply(own, columns_of(h, width), parts);
  __syncthreads();
  const int row = blockIdx.x * ROWS + threadIdx.x;
  if (threadIdx.x < ROWS && row < width) y[row] = total_of(parts, threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(THREADS) add_silu(float* to, const float* x, const float* y, int width) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  let_next_start();
  await_previous();
  if (i < width) to[i] = x[i] + silu(y[i]);
}

// All layers, by blocks that are on the chip together. x goes to and fro between the halves of `xs`; `arrived` is 0 at the
// start. Threads of the product have the weights of the next layer under way while one more warp stores the rows and waits
// for all other blocks: its fence would else wait for weights too.
extern "C" __global__ void __launch_bounds__(THREADS + 32)
    all_layers(float* out, const float* x, const unsigned short* weights, float* xs, unsigned int* arrived, int layers,
               int width) {
  __shared__ Parts parts;
  const bool multiplies = threadIdx.x < THREADS;
  const int lane = threadIdx.x - THREADS, row = blockIdx.x * ROWS + lane;
  const bool stores = !multiplies && lane < ROWS && row < width;
  float state = stores ? x[row] : 0;
  Weights own;
  if (multiplies) own = loaded(weights, width);
  for (int layer = 0; layer < layers; ++layer) {
    if (multiplies) {
      multiply(own, columns_of(layer ? xs + layer % 2 * width : x, width), parts);
      if (layer + 1 < layers) own = loaded(weights + (layer + 1) * (long long)width * width, width);
    }
    __syncthreads();
    if (stores) {
      state += silu(total_of(parts, lane) * rsqrtf(total_of(parts, ROWS) / width + TINY));
      __stcg(layer + 1 < layers ? xs + (layer + 1) % 2 * width + row : out + row, state);
    }
    if (layer + 1 == layers) return;
    if (!multiplies) {
      __syncwarp();
      if (lane == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile unsigned int*)arrived < (layer + 1) * gridDim.x) {
        }
        __threadfence();
      }
    }
    __syncthreads();
  }
}
