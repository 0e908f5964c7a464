// out[i] = sum of taps[k] x[i + k]. Kernels differ in the memory from which a multiply-add takes its tap and its value.
#define TAPS 33
#define THREADS 256
#define OUTPUTS 4  // of a thread with a register window
#define TILE (THREADS * OUTPUTS)

struct Filter {
  float taps[TAPS];
};

// A value of x, whose n + TAPS - 1 are followed by zeros.
__device__ __forceinline__ float value(const float* x, long long i, long long n) {
  return i < n + TAPS - 1 ? x[i] : 0;
}
__device__ __forceinline__ float4 four_values(const float* x, long long i, long long n) {
  if (i + 3 < n + TAPS - 1) return *reinterpret_cast<const float4*>(x + i);
  return make_float4(value(x, i, n), value(x, i + 1, n), value(x, i + 2, n), 0);
}

// Value i of a window meets each of the four sums by another tap, then it is done: no register holds it any longer.
__device__ __forceinline__ void add(float (&sums)[OUTPUTS], float v, int i, const Filter& filter) {
#pragma unroll
  for (int o = 0; o < OUTPUTS; ++o)
    if (0 <= i - o && i - o < TAPS) sums[o] = fmaf(filter.taps[i - o], v, sums[o]);
}
template <typename Load>
__device__ __forceinline__ void window(const Load& load, const Filter& filter, float* out, long long first,
                                       long long n) {
  float sums[OUTPUTS] = {};
#pragma unroll
  for (int i = 0; i < TAPS + OUTPUTS - 1; i += 4) {
    const float4 v = load(i);
    add(sums, v.x, i, filter), add(sums, v.y, i + 1, filter), add(sums, v.z, i + 2, filter);
    add(sums, v.w, i + 3, filter);
  }
  if (first + 3 < n) {
    *reinterpret_cast<float4*>(out + first) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  } else {
#pragma unroll
    for (int o = 0; o < OUTPUTS; ++o)
      if (first + o < n) out[first + o] = sums[o];
  }
}

extern "C" {
__global__ void __launch_bounds__(THREADS) global_memory(const float* x, const float* taps, float* out, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < TAPS; ++k) sum = fmaf(taps[k], x[i + k], sum);
  out[i] = sum;
}

__global__ void __launch_bounds__(THREADS)
    constant_taps(const float* x, const __grid_constant__ Filter filter, float* out, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < TAPS; ++k) sum = fmaf(filter.taps[k], x[i + k], sum);
  out[i] = sum;
}

__global__ void __launch_bounds__(THREADS)
    shared_tile(const float* x, const __grid_constant__ Filter filter, float* out, long long n) {
  __shared__ float tile[THREADS + TAPS - 1];
  const long long first = blockIdx.x * (long long)THREADS, i = first + threadIdx.x;
  tile[threadIdx.x] = value(x, i, n);
  if (threadIdx.x < TAPS - 1) tile[THREADS + threadIdx.x] = value(x, i + THREADS, n);
  __syncthreads();
  if (i >= n) return;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < TAPS; ++k) sum = fmaf(filter.taps[k], tile[threadIdx.x + k], sum);
  out[i] = sum;
}

__global__ void __launch_bounds__(THREADS)
    register_window(const float* x, const __grid_constant__ Filter filter, float* out, long long n) {
  __shared__ float4 tile[THREADS + (TAPS - 1) / 4];
  const long long first = blockIdx.x * (long long)TILE, mine = first + 4 * threadIdx.x;
  tile[threadIdx.x] = four_values(x, mine, n);
  if (threadIdx.x < (TAPS - 1) / 4) tile[THREADS + threadIdx.x] = four_values(x, mine + TILE, n);
  __syncthreads();
  window([&](int i) { return tile[threadIdx.x + i / 4]; }, filter, out, mine, n);
}

// Every load is 512 bytes in a row; of nine, eight lie in lines that a neighbour asks for, too.
__global__ void __launch_bounds__(THREADS)
    without_shared(const float* x, const __grid_constant__ Filter filter, float* out, long long n) {
  const long long mine = blockIdx.x * (long long)TILE + 4 * threadIdx.x;
  if (mine + TAPS + OUTPUTS - 2 < n + TAPS - 1)
    window([&](int i) { return *reinterpret_cast<const float4*>(x + mine + i); }, filter, out, mine, n);
  else if (mine < n)
    window([&](int i) { return four_values(x, mine + i, n); }, filter, out, mine, n);
}
}
