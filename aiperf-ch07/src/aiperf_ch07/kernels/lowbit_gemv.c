// y = W x with W of packed weights, (q - 8) * scale, where q has four bits; a scale serves 128 weights of a row.
#include <stdint.h>
#include <string.h>

#define GROUP 128
#define LANES 16

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline float total_of(const float* sums) {
  float total = 0;
  for (int lane = 0; lane < LANES; ++lane) total += sums[lane];
  return total;
}

// The product with weights that were unpacked to bfloat16 before.
void product(const uint16_t* restrict weights, const float* restrict x, float* restrict y, int64_t rows,
             int64_t columns) {
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row) {
    const uint16_t* from = weights + row * columns;
    float sums[LANES] = {0};
    for (int64_t i = 0; i < columns; i += LANES)
      for (int lane = 0; lane < LANES; ++lane) sums[lane] += float_of((uint32_t)from[i + lane] << 16) * x[i + lane];
    y[row] = total_of(sums);
  }
}

// Weights are unpacked in registers. `halves` is x with the elements of low halves of bytes before those of high
// halves, group by group, so that loads are in a row.
void fused(const uint8_t* restrict packed, const uint16_t* restrict scales, const float* restrict x,
           float* restrict halves, float* restrict y, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < columns; ++i) halves[i / GROUP * GROUP + i % 2 * (GROUP / 2) + i % GROUP / 2] = x[i];
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row) {
    float totals[LANES] = {0};
    for (int64_t g = 0; g < columns / GROUP; ++g) {
      const uint8_t* from = packed + (row * columns + g * GROUP) / 2;
      const float *low = halves + g * GROUP, *high = low + GROUP / 2;
      float sums[LANES] = {0};
      for (int i = 0; i < GROUP / 2; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) {
          sums[lane] += (float)((from[i + lane] & 15) - 8) * low[i + lane];
          sums[lane] += (float)((from[i + lane] >> 4) - 8) * high[i + lane];
        }
      const float scale = float_of((uint32_t)scales[row * (columns / GROUP) + g] << 16);
      for (int lane = 0; lane < LANES; ++lane) totals[lane] += scale * sums[lane];
    }
    y[row] = total_of(totals);
  }
}
