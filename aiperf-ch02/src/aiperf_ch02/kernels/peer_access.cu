// A pass over an array of which one end may lie in a peer's memory. Words of 16 bytes: a warp asks the link for 512 bytes at once,
// and 2048 threads of an SM have 32 KiB in flight.
__device__ bool in_words(const void* a, const void* b, const void* c) {
  return (((unsigned long long)a | (unsigned long long)b | (unsigned long long)c) & 15) == 0;
}

extern "C" __global__ void pushed(const float* x, float* there, long long n) {
  long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
  long long words = in_words(x, there, there) ? n / 4 : 0;
  for (long long i = first; i < words; i += step) ((float4*)there)[i] = ((const float4*)x)[i];
  for (long long i = 4 * words + first; i < n; i += step) there[i] = x[i];
}

extern "C" __global__ void added(const float* there, const float* y, float* out, long long n) {
  long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
  long long words = in_words(there, y, out) ? n / 4 : 0;
  for (long long i = first; i < words; i += step) {
    float4 a = ((const float4*)there)[i], b = ((const float4*)y)[i];
    ((float4*)out)[i] = {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
  }
  for (long long i = 4 * words + first; i < n; i += step) out[i] = there[i] + y[i];
}
