// Bodies that fall through air, each with a velocity v: `steps` steps of v <- v + H (1 - v^2), which are two
// multiply-adds. What differs is how many of these chains a warp has under way.
#define THREADS 128
#define H 0.001953125f
#define BODY 128  // steps of one round of the loop, over all chains: the same code size and overhead for any number

// The elements of a thread: THREADS apart, so that a warp reads and writes whole lines.
template <int E>
__device__ __forceinline__ void load(float (&v)[E], const float* a, long long at, long long n) {
#pragma unroll
  for (int e = 0; e < E; ++e) v[e] = at + e * THREADS < n ? __ldcs(a + at + e * THREADS) : 0.0f;
}

// `advance` moves the velocities of E elements on. The next elements are loaded before that, because no other warp
// would hide the wait for them.
template <int E, typename F>
__device__ __forceinline__ void each(const float* a, float* out, long long n, F advance) {
  const long long step = (long long)gridDim.x * THREADS * E;
  long long at = (long long)blockIdx.x * THREADS * E + threadIdx.x;
  float next[E];
  load(next, a, at, n);
  for (; at < n; at += step) {
    float v[E];
#pragma unroll
    for (int e = 0; e < E; ++e) v[e] = next[e];
    load(next, a, at + step, n);
    advance(v);
#pragma unroll
    for (int e = 0; e < E; ++e)
      if (at + e * THREADS < n) __stcs(out + at + e * THREADS, v[e]);
  }
}

// E chains, each of which waits for itself at every step.
template <int E>
__global__ void __launch_bounds__(THREADS) chains(const float* a, float* out, long long n, int steps) {
  each<E>(a, out, n, [=](float(&v)[E]) {
#pragma unroll BODY / E
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int e = 0; e < E; ++e) v[e] = fmaf(fmaf(v[e], v[e], -1.0f), -H, v[e]);
  });
}

#if __CUDA_ARCH__ >= 1000
// Eight chains, two in each instruction.
__device__ __forceinline__ unsigned long long pair(float x, float y) {
  unsigned long long both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "f"(x), "f"(y));
  return both;
}
extern "C" __global__ void __launch_bounds__(THREADS) packed(const float* a, float* out, long long n, int steps) {
  each<8>(a, out, n, [=](float(&v)[8]) {
    const unsigned long long one = pair(-1.0f, -1.0f), h = pair(-H, -H);
    unsigned long long vs[4], pull;
#pragma unroll
    for (int p = 0; p < 4; ++p) vs[p] = pair(v[2 * p], v[2 * p + 1]);
#pragma unroll BODY / 8
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        asm("fma.rn.f32x2 %0, %1, %1, %2;" : "=l"(pull) : "l"(vs[p]), "l"(one));
        asm("fma.rn.f32x2 %0, %1, %2, %0;" : "+l"(vs[p]) : "l"(pull), "l"(h));
      }
#pragma unroll
    for (int p = 0; p < 4; ++p) asm("mov.b64 {%0, %1}, %2;" : "=f"(v[2 * p]), "=f"(v[2 * p + 1]) : "l"(vs[p]));
  });
}
#endif
