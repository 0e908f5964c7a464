// Each element takes one of four paths; path 0 is 40 times as long as the others. On a processor the lanes are those of
// its vector registers.
#include <stdint.h>

#include "series.h"

#define LONG 960
#define SHORT 24
#define PATHS 4
#define FIRST(path) (1000 * (path))  // of the coefficients of a path
#define LANES 8
#define TILE 2048

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

static const int degrees[PATHS] = {LONG, SHORT, SHORT, SHORT};
typedef float Terms[PATHS][LONG + 1];

static void fill(Terms terms) {
  for (int path = 0; path < PATHS; ++path)
    for (int k = 0; k <= degrees[path]; ++k) terms[path][k] = TERM(FIRST(path) + k);
}

static inline float one(Terms terms, int path, float t) {
  float y = terms[path][degrees[path]];
  for (int k = degrees[path] - 1; k >= 0; --k) y = y * t + terms[path][k];
  return y;
}
static inline vec eight(Terms terms, int path, vec t) {
  vec y = (vec){0} + terms[path][degrees[path]];
  for (int k = degrees[path] - 1; k >= 0; --k) y = y * t + terms[path][k];
  return y;
}

// Where to go is decided for each element, and nobody can foresee it.
void branches(const uint8_t* path, const float* t, float* out, int64_t n) {
  Terms terms;
  fill(terms);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    switch (path[i]) {
      case 0: out[i] = one(terms, 0, t[i]); break;
      case 1: out[i] = one(terms, 1, t[i]); break;
      case 2: out[i] = one(terms, 2, t[i]); break;
      default: out[i] = one(terms, 3, t[i]);
    }
  }
}

// Eight elements at a time take all paths, and each keeps one result.
void select(const uint8_t* path, const float* t, float* out, int64_t n) {
  Terms terms;
  fill(terms);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += LANES) {
    const int count = n - i < LANES ? (int)(n - i) : LANES;
    vec x = {0};
    ivec mine = {0}, kept = {0};
    for (int lane = 0; lane < count; ++lane) x[lane] = t[i + lane], mine[lane] = path[i + lane];
    for (int p = 0; p < PATHS; ++p) kept |= (ivec)eight(terms, p, x) & (mine == p);
    const vec y = (vec)kept;
    for (int lane = 0; lane < count; ++lane) out[i + lane] = y[lane];
  }
}

// The elements of a tile are listed by path; then eight at a time take the same path. Free lanes of the last eight
// compute one of them again.
void compacted(const uint8_t* path, const float* t, float* out, int64_t n) {
  Terms terms;
  fill(terms);
#pragma omp parallel for schedule(static)
  for (int64_t start = 0; start < n; start += TILE) {
    const int length = n - start < TILE ? (int)(n - start) : TILE;
    int lists[PATHS][TILE], counts[PATHS] = {0};
    for (int i = 0; i < length; ++i) lists[path[start + i]][counts[path[start + i]]++] = i;
    for (int p = 0; p < PATHS; ++p)
      for (int k = 0; k < counts[p]; k += LANES) {
        vec x;
        for (int lane = 0; lane < LANES; ++lane) {
          const int at = k + lane < counts[p] ? k + lane : k;
          x[lane] = t[start + lists[p][at]];
        }
        const vec y = eight(terms, p, x);
        for (int lane = 0; lane < LANES && k + lane < counts[p]; ++lane) out[start + lists[p][k + lane]] = y[lane];
      }
  }
}
