// out = gelu(x + bias) * scale + residual, cut off at -limit and limit, in bfloat16, on all cores.
#include "half_precision.h"

// v / 2 (1 + tanh(u)) with u = sqrt(2 / pi) (v + 0.044715 v^3) is v / (1 + exp(-2 u)).
static inline float gelu(float v) {
  const float twice = 1.59576912f * (v + 0.044715f * v * v * v);
  return v / (1 + exponential(-twice));
}

void fused(const Half* restrict x, const Half* restrict bias, const Half* restrict scale, const Half* restrict residual,
           Half* restrict out, float limit, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t start = r * columns;
    for (int64_t c = 0; c < columns; ++c) {
      const float active = gelu(widened(x[start + c]) + widened(bias[c]));
      const float value = active * widened(scale[c]) + widened(residual[start + c]);
      out[start + c] = narrowed(smaller(larger(value, -limit), limit));
    }
  }
}
