// out = relu(x w), for one thread; w is given by columns.
#include <stdint.h>

#define LANES 8
#define CHAINS 4

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static float dot(const float* a, const float* b, int64_t n) {
  vec totals[CHAINS] = {0};
  int64_t i = 0;
  for (; i + LANES * CHAINS <= n; i += LANES * CHAINS)
#pragma GCC unroll 4
    for (int k = 0; k < CHAINS; ++k) totals[k] += *(const vec*)(a + i + LANES * k) * *(const vec*)(b + i + LANES * k);
  totals[0] += totals[1] + totals[2] + totals[3];
  float total = 0;
  for (; i < n; ++i) total += a[i] * b[i];
  for (int lane = 0; lane < LANES; ++lane) total += totals[0][lane];
  return total;
}

void layer(const float* x, const float* columns, float* out, int64_t rows, int64_t width, int64_t outs) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < outs; ++j) {
      const float y = dot(x + r * width, columns + j * width, width);
      out[r * outs + j] = y > 0 ? y : 0;
    }
}
