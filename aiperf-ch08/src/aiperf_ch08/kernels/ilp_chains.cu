// A polynomial of degree 128 for each element. What differs is how many chains of multiply-adds a warp has under way.
#include "series.h"

#define DEGREE 128
#define THREADS 128

// The elements of a thread: THREADS apart, so that a warp reads and writes whole lines.
template <int E>
__device__ __forceinline__ void load(float (&t)[E], const float* a, long long at, long long n) {
#pragma unroll
  for (int e = 0; e < E; ++e) t[e] = at + e * THREADS < n ? __ldcs(a + at + e * THREADS) : 0.0f;
}

// `evaluate` turns the elements t into their polynomials y. The next elements are loaded before that, because no other
// warp would hide the wait for them.
template <int E, typename F>
__device__ __forceinline__ void each(const float* a, float* out, long long n, F evaluate) {
  const long long step = (long long)gridDim.x * THREADS * E;
  long long at = (long long)blockIdx.x * THREADS * E + threadIdx.x;
  float next[E];
  load(next, a, at, n);
  for (; at < n; at += step) {
    float t[E], y[E];
#pragma unroll
    for (int e = 0; e < E; ++e) t[e] = next[e];
    load(next, a, at + step, n);
    evaluate(t, y);
#pragma unroll
    for (int e = 0; e < E; ++e)
      if (at + e * THREADS < n) __stcs(out + at + e * THREADS, y[e]);
  }
}

// Horner's rule for E elements at the same time: E chains, each of which waits for itself at every step.
template <int E>
__device__ __forceinline__ void horner(const float* a, float* out, long long n) {
  each<E>(a, out, n, [](const float(&t)[E], float(&y)[E]) {
#pragma unroll
    for (int e = 0; e < E; ++e) y[e] = TERM(DEGREE);
#pragma unroll
    for (int k = DEGREE - 1; k >= 0; --k)
#pragma unroll
      for (int e = 0; e < E; ++e) y[e] = fmaf(y[e], t[e], TERM(k));
  });
}

extern "C" {
__global__ void __launch_bounds__(THREADS) one_chain(const float* a, float* out, long long n) {
  horner<1>(a, out, n);
}
__global__ void __launch_bounds__(THREADS) two_chains(const float* a, float* out, long long n) {
  horner<2>(a, out, n);
}
__global__ void __launch_bounds__(THREADS) four_chains(const float* a, float* out, long long n) {
  horner<4>(a, out, n);
}
__global__ void __launch_bounds__(THREADS) eight_chains(const float* a, float* out, long long n) {
  horner<8>(a, out, n);
}

// Four polynomials in t^4 make up one in t: part j has the coefficients j, j + 4, j + 8 and so on.
__global__ void __launch_bounds__(THREADS) four_parts(const float* a, float* out, long long n) {
  each<1>(a, out, n, [](const float(&t)[1], float(&y)[1]) {
    const float square = t[0] * t[0], fourth = square * square;
    float part[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) part[j] = TERM(DEGREE - 4 + j);
    part[0] = fmaf(TERM(DEGREE), fourth, part[0]);
#pragma unroll
    for (int k = DEGREE - 8; k >= 0; k -= 4)
#pragma unroll
      for (int j = 0; j < 4; ++j) part[j] = fmaf(part[j], fourth, TERM(k + j));
    y[0] = fmaf(fmaf(part[3], t[0], part[2]), square, fmaf(part[1], t[0], part[0]));
  });
}

#if __CUDA_ARCH__ >= 1000
// Two chains in one register pair, and two multiply-adds in one instruction.
__device__ __forceinline__ unsigned long long pair(float x, float y) {
  unsigned long long both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "f"(x), "f"(y));
  return both;
}
__global__ void __launch_bounds__(THREADS) packed(const float* a, float* out, long long n) {
  each<8>(a, out, n, [](const float(&t)[8], float(&y)[8]) {
    unsigned long long ts[4], ys[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) ts[p] = pair(t[2 * p], t[2 * p + 1]), ys[p] = pair(TERM(DEGREE), TERM(DEGREE));
#pragma unroll
    for (int k = DEGREE - 1; k >= 0; --k) {
      const unsigned long long term = pair(TERM(k), TERM(k));
#pragma unroll
      for (int p = 0; p < 4; ++p) asm("fma.rn.f32x2 %0, %0, %1, %2;" : "+l"(ys[p]) : "l"(ts[p]), "l"(term));
    }
#pragma unroll
    for (int p = 0; p < 4; ++p) asm("mov.b64 {%0, %1}, %2;" : "=f"(y[2 * p]), "=f"(y[2 * p + 1]) : "l"(ys[p]));
  });
}
#endif
}
