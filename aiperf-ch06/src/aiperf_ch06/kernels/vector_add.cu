// out = a + b; what differs is which threads there are, and how much each of them takes.

// Any number of blocks does: thread t takes elements t, t + T, t + 2 T, ... of T threads. It is launched with one.
extern "C" __global__ void one_block(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                                     long long n) {
  const long long threads = (long long)gridDim.x * blockDim.x;
#pragma unroll 4
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += threads) out[i] = a[i] + b[i];
}

// Thread i takes element i; the last block may have threads without one.
extern "C" __global__ void thread_per_element(const float* __restrict__ a, const float* __restrict__ b,
                                              float* __restrict__ out, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

// Elements 4 q to 4 q + 3 in 16-byte accesses, or what there is of them at the end.
__device__ __forceinline__ void quad(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                                     long long n, long long q) {
  if (4 * q + 3 < n) {
    const float4 x = reinterpret_cast<const float4*>(a)[q], y = reinterpret_cast<const float4*>(b)[q];
    reinterpret_cast<float4*>(out)[q] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  } else {
    for (long long i = 4 * q; i < n; ++i) out[i] = a[i] + b[i];
  }
}

extern "C" __global__ void wide(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                                long long n) {
  quad(a, b, out, n, blockIdx.x * (long long)blockDim.x + threadIdx.x);
}

extern "C" __global__ void grid_stride(const float* __restrict__ a, const float* __restrict__ b,
                                       float* __restrict__ out, long long n) {
  const long long threads = (long long)gridDim.x * blockDim.x;
  for (long long q = blockIdx.x * (long long)blockDim.x + threadIdx.x; 4 * q < n; q += threads) quad(a, b, out, n, q);
}
