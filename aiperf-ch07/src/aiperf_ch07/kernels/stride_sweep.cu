// Reads n words of 4, 8 or 16 bytes: those that lie `stride` words apart, neighbouring lanes taking neighbours, and then those
// that were left out, so that every word is read once.
__device__ float sum_of(float v) { return v; }
__device__ float sum_of(float2 v) { return v.x + v.y; }
__device__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

template <typename Word>
__device__ void sweep(const Word* __restrict__ a, float* out, long long n, int stride) {
  const long long rows = n / stride, step = gridDim.x * (long long)blockDim.x;
  float total = 0;
  for (int lane = 0; lane < stride; ++lane) {
#pragma unroll 4
    for (long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x; row < rows; row += step) {
      const Word v = a[row * stride + lane];
      total += sum_of(v);
    }
  }
  if (total == 0.3f) *out = total;  // never, but the compiler cannot know
}
extern "C" __global__ void sweep4(const void* a, float* out, long long n, int stride) {
  sweep(static_cast<const float*>(a), out, n, stride);
}
extern "C" __global__ void sweep8(const void* a, float* out, long long n, int stride) {
  sweep(static_cast<const float2*>(a), out, n, stride);
}
extern "C" __global__ void sweep16(const void* a, float* out, long long n, int stride) {
  sweep(static_cast<const float4*>(a), out, n, stride);
}
