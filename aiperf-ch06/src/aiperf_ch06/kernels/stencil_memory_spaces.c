// out[i] = sum of taps[k] x[i + k] on the processor's cores.
#include <stdint.h>

#define TAPS 33
#define LANES 8
#define VECTORS 4  // of sums in registers

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline float one(const float* x, const float* taps) {
  float sum = 0;
  for (int k = 0; k < TAPS; ++k) sum += taps[k] * x[k];
  return sum;
}

// Kept from vectors: the outputs of neighbours share nothing but the cache.
__attribute__((optimize("no-tree-vectorize"))) void one_at_a_time(const float* x, const float* taps, float* out,
                                                                  int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int k = 0; k < TAPS; ++k) sum += taps[k] * x[i + k];
    out[i] = sum;
  }
}

// `count` vectors of outputs at once: a tap is loaded once for all of them.
static inline __attribute__((always_inline)) void filtered(const float* x, const float* taps, float* out, int64_t n,
                                                           int count) {
  const int64_t part = count * LANES, whole = n / part * part;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < whole; i += part) {
    vec sums[VECTORS] = {0};
    for (int k = 0; k < TAPS; ++k)
#pragma GCC unroll 4
      for (int v = 0; v < count; ++v) sums[v] += taps[k] * *(const vec*)(x + i + v * LANES + k);
#pragma GCC unroll 4
    for (int v = 0; v < count; ++v) *(vec*)(out + i + v * LANES) = sums[v];
  }
  for (int64_t i = whole; i < n; ++i) out[i] = one(x + i, taps);
}
void simd(const float* x, const float* taps, float* out, int64_t n) { filtered(x, taps, out, n, 1); }
void registers(const float* x, const float* taps, float* out, int64_t n) { filtered(x, taps, out, n, VECTORS); }
