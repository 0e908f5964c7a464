// A polynomial of degree 128 for each element, in vectors as wide as the processor's registers. What differs is how
// many chains of multiply-adds are under way.
#include <stdint.h>
#include <string.h>

#include "series.h"

#define DEGREE 128
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));

static void fill(float* terms) {
  for (int k = 0; k <= DEGREE; ++k) terms[k] = TERM(k);
}

// Horner's rule for `chains` vectors at the same time; a chain waits for itself at every step.
static inline __attribute__((always_inline)) void horner(const float* a, float* out, const float* terms, int chains) {
  vec t[8], y[8];
  memcpy(t, a, chains * sizeof(vec));
#pragma GCC unroll 8
  for (int e = 0; e < chains; ++e) y[e] = (vec){0} + terms[DEGREE];
  for (int k = DEGREE - 1; k >= 0; --k)
#pragma GCC unroll 8
    for (int e = 0; e < chains; ++e) y[e] = y[e] * t[e] + terms[k];
  memcpy(out, y, chains * sizeof(vec));
}

// Four polynomials in t^4 make up one in t: part j has the coefficients j, j + 4, j + 8 and so on.
static inline __attribute__((always_inline)) void parts(const float* a, float* out, const float* terms, int chains) {
  (void)chains;
  vec t, part[4];
  memcpy(&t, a, sizeof t);
  const vec square = t * t, fourth = square * square;
  for (int j = 0; j < 4; ++j) part[j] = (vec){0} + terms[DEGREE - 4 + j];
  part[0] = terms[DEGREE] * fourth + part[0];
  for (int k = DEGREE - 8; k >= 0; k -= 4)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) part[j] = part[j] * fourth + terms[k + j];
  t = (part[3] * t + part[2]) * square + (part[1] * t + part[0]);
  memcpy(out, &t, sizeof t);
}

// What is left at the end is computed in whole vectors too.
static inline __attribute__((always_inline)) void each(const float* a, float* out, int64_t n, int chains,
                                                       void (*evaluate)(const float*, float*, const float*, int)) {
  const int64_t step = LANES * chains, whole = n / step * step;
  float terms[DEGREE + 1], rest[8 * LANES] = {0};
  fill(terms);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < whole; i += step) evaluate(a + i, out + i, terms, chains);
  memcpy(rest, a + whole, (n - whole) * sizeof(float));
  evaluate(rest, rest, terms, chains);
  memcpy(out + whole, rest, (n - whole) * sizeof(float));
}
void one_chain(const float* a, float* out, int64_t n) { each(a, out, n, 1, horner); }
void two_chains(const float* a, float* out, int64_t n) { each(a, out, n, 2, horner); }
void four_chains(const float* a, float* out, int64_t n) { each(a, out, n, 4, horner); }
void eight_chains(const float* a, float* out, int64_t n) { each(a, out, n, 8, horner); }
void four_parts(const float* a, float* out, int64_t n) { each(a, out, n, 1, parts); }
