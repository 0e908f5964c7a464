// Products of rows with the matrix of their expert, for rows that are sorted by expert: all experts in one call.
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
// Rows of an expert that a thread takes at a time.
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

// The rows of all experts, BLOCK at a time, by threads in turn; `order` and `ends` as in the Triton file. With `gather`,
// rows come from tokens and go to the sorted order, else from there to their slots. With `gated`, `wide` columns are
// gate and up side by side, and silu(gate) * up is stored: half as many.
static inline void over_groups(const float* x, const float* weights, const int64_t* order, const int32_t* ends,
                               float* out, int64_t experts, int64_t chosen, int64_t depth, int64_t wide, int gather,
                               int gated) {
  int64_t columns = gated ? wide / 2 : wide;
#pragma omp parallel
  {
    float* rows = calloc(BLOCK * (depth + wide), sizeof(float));
    float* results = rows + BLOCK * depth;
    int64_t block = 0;  // counted alike by all threads
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t first = e ? ends[e - 1] : 0; first < ends[e]; first += BLOCK, ++block) {
        if (block % omp_get_num_threads() != omp_get_thread_num()) continue;
        int64_t count = ends[e] - first < BLOCK ? ends[e] - first : BLOCK;
        for (int64_t r = 0; r < count; ++r) {
          int64_t source = gather ? order[first + r] / chosen : first + r;
          memcpy(rows + r * depth, x + source * depth, depth * sizeof(float));
        }
        product(rows, weights + e * depth * wide, results, count, wide, depth);
        for (int64_t r = 0; r < count; ++r) {
          float *result = results + r * wide, *target = out + (gather ? first + r : order[first + r]) * columns;
          if (!gated) memcpy(target, result, columns * sizeof(float));
          for (int64_t j = 0; gated && j < columns; ++j)
            target[j] = result[j] / (1 + exponential(-result[j])) * result[columns + j];
        }
      }
    }
    free(rows);
  }
}

void gathered(const float* x, const float* weights, const int64_t* order, const int32_t* ends, float* out,
              int64_t experts, int64_t chosen, int64_t depth, int64_t columns) {
  over_groups(x, weights, order, ends, out, experts, chosen, depth, columns, 1, 0);
}

void scattered(const float* x, const float* weights, const int64_t* order, const int32_t* ends, float* out,
               int64_t experts, int64_t chosen, int64_t depth, int64_t columns) {
  over_groups(x, weights, order, ends, out, experts, chosen, depth, columns, 0, 0);
}

void gathered_swiglu(const float* x, const float* weights, const int64_t* order, const int32_t* ends, float* out,
                     int64_t experts, int64_t chosen, int64_t depth, int64_t columns) {
  over_groups(x, weights, order, ends, out, experts, chosen, depth, 2 * columns, 1, 1);
}
