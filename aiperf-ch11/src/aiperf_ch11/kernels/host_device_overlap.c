// The host's part of a step, and for a processor the device's too, each for one thread. Sums are of doubles, in order.
#include <math.h>
#include <stdint.h>

// Rows of bytes to rows with mean 0 and variance gain^2.
void collate(const uint8_t* records, float* batch, double gain, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, records += width, batch += width) {
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < width; ++k) {
      const double value = records[k];
      sum += value, squares += value * value;
    }
    const double mean = sum / width, variance = squares / width - mean * mean;
    const float centre = (float)mean, factor = (float)(gain / sqrt((variance > 0 ? variance : 0) + 1e-5));
    for (int64_t k = 0; k < width; ++k) batch[k] = (records[k] - centre) * factor;
  }
}

// In a recording: records, batch, the address of the gain, rows, width.
void collate_recorded(const int64_t* arguments) {
  collate((const uint8_t*)arguments[0], (float*)arguments[1], *(const double*)arguments[2], arguments[3], arguments[4]);
}

// What a result of this norm is multiplied by.
static float factor_of(double norm, double limit) { return norm > limit ? (float)(limit / norm) : 1; }

// In a recording: the sum of squares that has come from the device, where its norm goes, the factor and the next sum for
// the device, and the address of the limit.
void decide_recorded(const int64_t* arguments) {
  const float norm = sqrtf(*(const float*)arguments[0]);
  float* decided = (float*)arguments[2];
  *(float*)arguments[1] = norm;
  decided[0] = 0, decided[1] = factor_of(norm, *(const double*)arguments[3]);
}

static void product(const float* restrict x, const float* restrict w, float* restrict out, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, x += width, out += width) {
    for (int64_t j = 0; j < width; ++j) out[j] = 0;
    for (int64_t k = 0; k < width; ++k)
      for (int64_t j = 0; j < width; ++j) out[j] += x[k] * w[k * width + j];
    for (int64_t j = 0; j < width; ++j) out[j] = out[j] > 0 ? out[j] : 0;
  }
}

// The layers of a step: x goes through all of them, to and fro between two places. The norm of the result, which is the
// first place if the number of layers is even.
float layers(const float* batch, const float* weights, float* here, float* there, int64_t layers, int64_t rows, int64_t width) {
  const float* from = batch;
  for (int64_t layer = 0; layer < layers; ++layer, weights += width * width) {
    float* to = (layers - layer) % 2 ? here : there;
    product(from, weights, to, rows, width);
    from = to;
  }
  double squares = 0;
  for (int64_t i = 0; i < rows * width; ++i) squares += (double)here[i] * here[i];
  return (float)sqrt(squares);
}

void add(float* total, const float* result, double norm, double limit, int64_t count) {
  const float factor = factor_of(norm, limit);
  for (int64_t i = 0; i < count; ++i) total[i] += factor * result[i];
}
