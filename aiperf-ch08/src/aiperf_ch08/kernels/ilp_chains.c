// Bodies that fall through air, for each a velocity v: `steps` steps of v <- v + H (1 - v^2), in vectors as wide as the
// processor's registers. What differs is how many chains of multiply-adds are under way.
#include <stdint.h>
#include <string.h>

#define H 0.001953125f
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));

// `chains` vectors at the same time; a chain waits for itself at every step.
static inline __attribute__((always_inline)) void advance(const float* a, float* out, int64_t steps, int chains) {
  vec v[8];
  memcpy(v, a, chains * sizeof(vec));
  for (int64_t s = 0; s < steps; ++s)
#pragma GCC unroll 8
    for (int e = 0; e < chains; ++e) v[e] = v[e] - H * (v[e] * v[e] - 1.0f);
  memcpy(out, v, chains * sizeof(vec));
}

// What is left at the end is computed in whole vectors too.
static inline __attribute__((always_inline)) void each(const float* a, float* out, int64_t n, int64_t steps,
                                                       int chains) {
  const int64_t step = LANES * chains, whole = n / step * step;
  float rest[8 * LANES] = {0};
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < whole; i += step) advance(a + i, out + i, steps, chains);
  memcpy(rest, a + whole, (n - whole) * sizeof(float));
  advance(rest, rest, steps, chains);
  memcpy(out + whole, rest, (n - whole) * sizeof(float));
}
void one_chain(const float* a, float* out, int64_t n, int64_t steps) { each(a, out, n, steps, 1); }
void two_chains(const float* a, float* out, int64_t n, int64_t steps) { each(a, out, n, steps, 2); }
void four_chains(const float* a, float* out, int64_t n, int64_t steps) { each(a, out, n, steps, 4); }
void eight_chains(const float* a, float* out, int64_t n, int64_t steps) { each(a, out, n, steps, 8); }
