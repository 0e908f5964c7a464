// A stage of a tile, for one thread.
#include <stdint.h>

// out = relu(a w), with w of width x width. Rows of w are added up, so that all accesses are in order.
static void round_of(const float* restrict a, const float* restrict w, float* restrict out, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, a += width, out += width) {
    for (int64_t j = 0; j < width; ++j) out[j] = 0;
    for (int64_t k = 0; k < width; ++k)
      for (int64_t j = 0; j < width; ++j) out[j] += a[k] * w[k * width + j];
    for (int64_t j = 0; j < width; ++j) out[j] = out[j] > 0 ? out[j] : 0;
  }
}

// The mean of a tile and of the tile before it goes through `rounds` rounds, to and fro between two places, so that the
// last one writes to `result`.
void stage(const float* tile, const float* before, const float* w, float* result, float* spare, int64_t rounds,
           int64_t rows, int64_t width) {
  float *from = rounds % 2 ? spare : result, *to = rounds % 2 ? result : spare;
  for (int64_t i = 0; i < rows * width; ++i) from[i] = 0.5f * (tile[i] + before[i]);
  for (int64_t i = 0; i < rounds; ++i) {
    round_of(from, w, to, rows, width);
    float* swap = from;
    from = to, to = swap;
  }
}
