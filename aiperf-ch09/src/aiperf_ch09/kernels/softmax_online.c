// Softmax of rows in bfloat16, on all cores; what differs is how often an exponential is computed.
#include <stdlib.h>

#include "half_precision.h"

static inline float maximum_of(const Half* restrict x, int64_t columns) {
  float maximum = widened(x[0]);
#pragma omp simd reduction(max : maximum)
  for (int64_t c = 1; c < columns; ++c) maximum = larger(maximum, widened(x[c]));
  return maximum;
}
static inline float sum_of(const Half* restrict x, int64_t columns, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < columns; ++c) sum += exponential(widened(x[c]) - maximum);
  return sum;
}
static inline void scale_row(const Half* restrict x, Half* restrict out, int64_t columns, float maximum, float sum) {
  const float scale = 1 / sum;
  for (int64_t c = 0; c < columns; ++c) out[c] = narrowed(exponential(widened(x[c]) - maximum) * scale);
}

// The second and the third pass find the row in the second-level cache.
void three_passes(const Half* restrict x, Half* restrict out, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const Half* row = x + r * columns;
    const float maximum = maximum_of(row, columns);
    scale_row(row, out + r * columns, columns, maximum, sum_of(row, columns, maximum));
  }
}

// The exponentials of a row lie in a buffer of each thread, which the second-level cache holds.
void kept(const Half* restrict x, Half* restrict out, int64_t rows, int64_t columns) {
#pragma omp parallel
  {
    float* powers = malloc((size_t)columns * sizeof *powers);
#pragma omp for
    for (int64_t r = 0; r < rows; ++r) {
      const Half* row = x + r * columns;
      const float maximum = maximum_of(row, columns);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < columns; ++c) {
        powers[c] = exponential(widened(row[c]) - maximum);
        sum += powers[c];
      }
      const float scale = 1 / sum;
      for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = narrowed(powers[c] * scale);
    }
    free(powers);
  }
}
