// total = x + residual, y = weight * total / sqrt(mean of total^2 + EPSILON), in bfloat16, rows on all cores.
#include <math.h>

#include "half_precision.h"

#define EPSILON 1e-6f

static inline void scale_row(const Half* restrict x, const Half* restrict residual, const Half* restrict weight,
                             Half* restrict y, int64_t columns, float sum) {
  const float scale = 1 / sqrtf(sum / columns + EPSILON);
  for (int64_t c = 0; c < columns; ++c)
    y[c] = narrowed((widened(x[c]) + widened(residual[c])) * scale * widened(weight[c]));
}

// A row at a time: the second loop finds it in the first-level cache, and adds again rather than store floats.
void fused(const Half* restrict x, const Half* restrict residual, const Half* restrict weight, Half* restrict total,
           Half* restrict y, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t start = r * columns;
    float sum = 0;
    for (int64_t c = start; c < start + columns; ++c) {
      const float value = widened(x[c]) + widened(residual[c]);
      total[c] = narrowed(value);
      sum += value * value;
    }
    scale_row(x + start, residual + start, weight, y + start, columns, sum);
  }
}

// The same, with the order of the additions left to the compiler, so that they go to the lanes of vectors.
void simd(const Half* restrict x, const Half* restrict residual, const Half* restrict weight, Half* restrict total,
          Half* restrict y, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t start = r * columns;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = start; c < start + columns; ++c) {
      const float value = widened(x[c]) + widened(residual[c]);
      total[c] = narrowed(value);
      sum += value * value;
    }
    scale_row(x + start, residual + start, weight, y + start, columns, sum);
  }
}
