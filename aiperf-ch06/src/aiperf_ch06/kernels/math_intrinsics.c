// A cell for each element, h <- tanh(w h + x), on the processor's cores: tanh of the library, or by vectors.
#include <math.h>
#include <stdint.h>

#define WEIGHT -0.75f
#define TO_BASE_2 2.8853900818f  // exp(2 u) = 2^(TO_BASE_2 u)
#define LANES 8
#define VECTORS 4  // which do not wait for each other

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

void libm(const float* x, float* out, int64_t n, int64_t steps) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    float h = 0;
    for (int64_t step = 0; step < steps; ++step) h = tanhf(WEIGHT * h + x[i]);
    out[i] = h;
  }
}

static inline vec selected(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }

// 1 - 2 / (1 + 2^y). Of y, the whole part becomes an exponent, and the rest goes through a Taylor polynomial of 2^f.
static const float taylor[] = {1.0f,          6.9314718e-1f, 2.4022651e-1f, 5.5504109e-2f,
                               9.6181291e-3f, 1.3333558e-3f, 1.5403530e-4f};
static inline __attribute__((always_inline)) vec tanh_of(vec u, int degree) {
  vec y = u * TO_BASE_2;
  y = selected(y > 30, (vec){0} + 30, selected(y < -30, (vec){0} - 30, y));  // beyond it, tanh rounds to 1
  const vec whole = (y + 12582912.0f) - 12582912.0f, rest = y - whole;
  vec power = (vec){0} + taylor[degree];
#pragma GCC unroll 8
  for (int k = degree - 1; k >= 0; --k) power = power * rest + taylor[k];
  power = (vec)((ivec)power + (__builtin_convertvector(whole, ivec) << 23));
  return 1.0f - 2.0f / (1.0f + power);
}
static inline __attribute__((always_inline)) void cells(const float* x, float* out, int64_t n, int64_t steps,
                                                        int degree) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += VECTORS * LANES) {
    const int count = n - i < VECTORS * LANES ? (int)(n - i) : VECTORS * LANES;
    union {
      vec v[VECTORS];
      float f[VECTORS * LANES];
    } in = {{{0}}}, h = {{{0}}};
    for (int k = 0; k < count; ++k) in.f[k] = x[i + k];
    for (int64_t step = 0; step < steps; ++step)
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; ++v) h.v[v] = tanh_of(WEIGHT * h.v[v] + in.v[v], degree);
    for (int k = 0; k < count; ++k) out[i + k] = h.f[k];
  }
}
void simd(const float* x, float* out, int64_t n, int64_t steps) { cells(x, out, n, steps, 6); }
void few_digits(const float* x, float* out, int64_t n, int64_t steps) { cells(x, out, n, steps, 3); }
