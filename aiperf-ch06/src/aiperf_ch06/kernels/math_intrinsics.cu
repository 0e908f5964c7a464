// A cell for each element: h <- tanh(w h + x), `steps` times from h = 0. Kernels differ in how tanh is computed.
#define THREADS 256
#define WEIGHT -0.75f
#define TO_BASE_2 2.8853900818f  // exp(2 u) = 2^(TO_BASE_2 u)

// tanh(w h + x) as it stands in books: 2 special functions, and what makes them right to the last bits.
struct Formula {
  __device__ static float step(float h, float x) { return 1 - 2 / (1 + expf(2 * fmaf(WEIGHT, h, x))); }
};
// The library's: the same two special functions, and a polynomial near zero.
struct Library {
  __device__ static float step(float h, float x) { return tanhf(fmaf(WEIGHT, h, x)); }
};
struct FastExp {
  __device__ static float step(float h, float x) { return 1 - __fdividef(2, 1 + __expf(2 * fmaf(WEIGHT, h, x))); }
};
// The same without what scales tiny and huge numbers; the factor of the base is in w and in x.
struct Base2 {
  __device__ static float step(float h, float x) {
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(WEIGHT * TO_BASE_2, h, x * TO_BASE_2)));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1 + power));
    return fmaf(-2, inverse, 1);
  }
};
struct Instruction {
  __device__ static float step(float h, float x) {
    float next;
    asm("tanh.approx.f32 %0, %1;" : "=f"(next) : "f"(fmaf(WEIGHT, h, x)));
    return next;
  }
};

// A thread has elements 2 i and 2 i + 1; behind the last one there is a zero.
__device__ __forceinline__ float2 two(const float* x, long long i, long long n) {
  return i + 1 < n ? *reinterpret_cast<const float2*>(x + i) : make_float2(x[i], 0);
}
__device__ __forceinline__ void store_two(float* out, long long i, long long n, float2 h) {
  if (i + 1 < n) *reinterpret_cast<float2*>(out + i) = h;
  else out[i] = h.x;
}

template <typename Tanh>
__global__ void __launch_bounds__(THREADS) cells(const float* x, float* out, long long n, int steps) {
  const long long i = 2 * (blockIdx.x * (long long)THREADS + threadIdx.x);
  if (i >= n) return;
  const float2 v = two(x, i, n);
  float2 h = make_float2(0, 0);
#pragma unroll 4
  for (int step = 0; step < steps; ++step) h = make_float2(Tanh::step(h.x, v.x), Tanh::step(h.y, v.y));
  store_two(out, i, n, h);
}

#if __CUDA_ARCH__ >= 900
// Both elements in the halves of a register, as bfloat16.
extern "C" __global__ void __launch_bounds__(THREADS) packed(const float* x, float* out, long long n, int steps) {
  const long long i = 2 * (blockIdx.x * (long long)THREADS + threadIdx.x);
  if (i >= n) return;
  const float2 v = two(x, i, n);
  unsigned xs, weights, h = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(xs) : "f"(v.y), "f"(v.x));
  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(weights) : "f"(WEIGHT));
#pragma unroll 4
  for (int step = 0; step < steps; ++step) {
    asm("fma.rn.bf16x2 %0, %1, %0, %2;" : "+r"(h) : "r"(weights), "r"(xs));
    asm("tanh.approx.bf16x2 %0, %0;" : "+r"(h));
  }
  store_two(out, i, n, make_float2(__uint_as_float(h << 16), __uint_as_float(h & 0xffff0000u)));
}
#endif
