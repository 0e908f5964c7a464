// y = x W^T for few rows of x, on a CPU; y is bfloat16, passed as 16-bit words. Sums are float32.
#include <stdint.h>
#include <string.h>

#define GROUP 128
#define LANES 16

static inline float wide(uint16_t word) {
  const uint32_t bits = (uint32_t)word << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, ties to even. No result here is NaN.
static inline uint16_t narrow(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static inline float total_of(const float* sums) {
  float total = 0;
  for (int lane = 0; lane < LANES; ++lane) total += sums[lane];
  return total;
}

// Weights are bfloat16. x: [batch, columns].
void whole(const uint16_t* restrict weights, const float* restrict x, uint16_t* restrict y, int64_t batch, int64_t rows,
           int64_t columns) {
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t m = 0; m < batch; ++m) {
      const uint16_t* from = weights + row * columns;
      const float* with = x + m * columns;
      float sums[LANES] = {0};
      for (int64_t i = 0; i < columns; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) sums[lane] += wide(from[i + lane]) * with[i + lane];
      y[m * rows + row] = narrow(total_of(sums));
    }
}

// Weights are bytes, with a scale a row.
void int8(const int8_t* restrict codes, const float* restrict scales, const float* restrict x, uint16_t* restrict y,
          int64_t batch, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t m = 0; m < batch; ++m) {
      const int8_t* from = codes + row * columns;
      const float* with = x + m * columns;
      float sums[LANES] = {0};
      for (int64_t i = 0; i < columns; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) sums[lane] += (float)from[i + lane] * with[i + lane];
      y[m * rows + row] = narrow(scales[row] * total_of(sums));
    }
}

// Weights are halves of bytes, plus 8: the first 64 of a group are low halves. A scale serves a group.
void int4(const uint8_t* restrict codes, const float* restrict scales, const float* restrict x, uint16_t* restrict y,
          int64_t batch, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t m = 0; m < batch; ++m) {
      float totals[LANES] = {0};
      for (int64_t g = 0; g < columns / GROUP; ++g) {
        const uint8_t* from = codes + (row * columns + g * GROUP) / 2;
        const float *low = x + m * columns + g * GROUP, *high = low + GROUP / 2;
        float sums[LANES] = {0};
        for (int i = 0; i < GROUP / 2; i += LANES)
          for (int lane = 0; lane < LANES; ++lane) {
            sums[lane] += (float)((from[i + lane] & 15) - 8) * low[i + lane];
            sums[lane] += (float)((from[i + lane] >> 4) - 8) * high[i + lane];
          }
        const float scale = scales[row * (columns / GROUP) + g];
        for (int lane = 0; lane < LANES; ++lane) totals[lane] += scale * sums[lane];
      }
      y[m * rows + row] = narrow(total_of(totals));
    }
}
