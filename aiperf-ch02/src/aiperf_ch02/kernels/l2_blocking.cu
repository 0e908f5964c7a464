// Eight passes x <- scales[k] x + shifts[k], one a launch or all in one.
#define PASSES 8

// Values `first` to `first + count` of `to`, from those of `from`, which may be the same array: a thread writes what it
// has read itself. The first one of a chunk is at a multiple of four, so that accesses of 16 bytes are aligned.
extern "C" __global__ void one_pass(const float* from, float* to, const float* __restrict__ scales,
                                    const float* __restrict__ shifts, int k, long long first, long long count) {
  const float scale = scales[k], shift = shifts[k];
  const long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
  if (i + 3 < count) {
    float4 v = *reinterpret_cast<const float4*>(from + first + i);
    v.x = fmaf(scale, v.x, shift), v.y = fmaf(scale, v.y, shift);
    v.z = fmaf(scale, v.z, shift), v.w = fmaf(scale, v.w, shift);
    *reinterpret_cast<float4*>(to + first + i) = v;
  } else {
    for (long long j = i; j < count; ++j) to[first + j] = fmaf(scale, from[first + j], shift);
  }
}

extern "C" __global__ void fused(const float* __restrict__ x, float* __restrict__ out,
                                 const float* __restrict__ scales, const float* __restrict__ shifts, long long n) {
  const long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
  float scale[PASSES], shift[PASSES];
#pragma unroll
  for (int k = 0; k < PASSES; ++k) scale[k] = scales[k], shift[k] = shifts[k];
  if (i + 3 < n) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
#pragma unroll
    for (int k = 0; k < PASSES; ++k) {
      v.x = fmaf(scale[k], v.x, shift[k]), v.y = fmaf(scale[k], v.y, shift[k]);
      v.z = fmaf(scale[k], v.z, shift[k]), v.w = fmaf(scale[k], v.w, shift[k]);
    }
    *reinterpret_cast<float4*>(out + i) = v;
  } else {
    for (long long j = i; j < n; ++j) {
      float v = x[j];
#pragma unroll
      for (int k = 0; k < PASSES; ++k) v = fmaf(scale[k], v, shift[k]);
      out[j] = v;
    }
  }
}
