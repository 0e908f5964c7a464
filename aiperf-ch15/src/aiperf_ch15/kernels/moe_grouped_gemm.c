// The experts of a mixture: all products of all experts in one call, a block of rows at a time.
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Of a register; 12 hold a block of the product, of the 16 that AVX2 has.
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define ROWS 6
#define COLUMNS (2 * LANES)
// Rows of an expert that go through both products while they are in the cache.
#define BLOCK 48

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline void tile(const float* a, const float* b, float* c, int64_t n, int64_t k) {
  vec left[ROWS] = {0}, right[ROWS] = {0};
  for (int64_t p = 0; p < k; ++p) {
    vec b_left = *(const vec*)(b + p * n), b_right = *(const vec*)(b + p * n + LANES);
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; ++r) {
      left[r] += a[r * k + p] * b_left;
      right[r] += a[r * k + p] * b_right;
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    *(vec*)(c + r * n) = left[r];
    *(vec*)(c + r * n + LANES) = right[r];
  }
}

// c[m, n] = a[m, k] b[k, n]. `a` and `c` have memory for a multiple of ROWS rows.
static void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  int64_t full = n - n % COLUMNS;
  for (int64_t j = 0; j < full; j += COLUMNS)
    for (int64_t i = 0; i < m; i += ROWS) tile(a + i * k, b + j, c + i * n + j, n, k);
  for (int64_t i = 0; i < m && full < n; ++i) {
    for (int64_t j = full; j < n; ++j) c[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = full; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
  }
}

// exp(x), to a few units in the last place, in a form that a compiler makes vectors of. 2^n has n in its exponent's bits;
// what is left is at most ln(2) / 2, where terms beyond the seventh of the series are below 1e-8.
static inline float exponential(float x) {
  x = fminf(fmaxf(x, -87.0f), 88.0f);
  float n = nearbyintf(x * 1.44269504f);
  float rest = fmaf(n, -0.693145752f, x);  // ln(2) in two parts, so that the difference is exact
  rest = fmaf(n, -1.42860677e-6f, rest);
  float sum = 1.0f / 5040;
  sum = fmaf(sum, rest, 1.0f / 720), sum = fmaf(sum, rest, 1.0f / 120), sum = fmaf(sum, rest, 1.0f / 24);
  sum = fmaf(sum, rest, 1.0f / 6), sum = fmaf(sum, rest, 0.5f), sum = fmaf(sum, rest, 1.0f);
  union {
    int32_t bits;
    float value;
  } power = {((int32_t)n + 127) << 23};
  return fmaf(sum, rest, 1.0f) * power.value;
}

// x: [tokens, width]; gate_up: [experts, width, 2 hidden]; down: [experts, hidden, width]; order: the slots (token *
// chosen + choice) sorted by expert; ends: the end of each expert's; slots: [tokens * chosen, width], the result.
void in_cache(const float* x, const float* gate_up, const float* down, const int64_t* order, const int32_t* ends,
              float* slots, int64_t experts, int64_t chosen, int64_t width, int64_t hidden) {
#pragma omp parallel
  {
    float* rows = calloc(BLOCK * (width + 2 * hidden + hidden + width), sizeof(float));
    float *wide = rows + BLOCK * width, *active = wide + BLOCK * 2 * hidden, *out = active + BLOCK * hidden;
    int64_t block = 0;  // counted alike by all threads, which take blocks in turn
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t first = e ? ends[e - 1] : 0; first < ends[e]; first += BLOCK, ++block) {
        if (block % omp_get_num_threads() != omp_get_thread_num()) continue;
        int64_t count = ends[e] - first < BLOCK ? ends[e] - first : BLOCK;
        for (int64_t r = 0; r < count; ++r)
          memcpy(rows + r * width, x + order[first + r] / chosen * width, width * sizeof(float));
        product(rows, gate_up + e * width * 2 * hidden, wide, count, 2 * hidden, width);
        for (int64_t r = 0; r < count; ++r)
          for (int64_t j = 0; j < hidden; ++j) {
            float gate = wide[r * 2 * hidden + j];
            active[r * hidden + j] = gate / (1 + exponential(-gate)) * wide[r * 2 * hidden + hidden + j];
          }
        product(active, down + e * hidden * width, out, count, width, hidden);
        for (int64_t r = 0; r < count; ++r)
          memcpy(slots + order[first + r] * width, out + r * width, width * sizeof(float));
      }
    }
    free(rows);
  }
}
