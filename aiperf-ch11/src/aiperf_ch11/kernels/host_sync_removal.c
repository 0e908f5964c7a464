// The parts of a training step, each for one thread. Sums are of doubles, in order.
#include <math.h>
#include <stdint.h>

// Rows with mean 0 and variance 1.
void normalise(const float* x, float* z, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, z += columns) {
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < columns; ++k) sum += x[k], squares += (double)x[k] * x[k];
    const double mean = sum / columns, variance = squares / columns - mean * mean;
    const float centre = (float)mean, factor = (float)(1 / sqrt((variance > 0 ? variance : 0) + 1e-5));
    for (int64_t k = 0; k < columns; ++k) z[k] = (x[k] - centre) * factor;
  }
}

// The gradient of the mean squared error of z w against y; metrics are the loss and the gradient's norm.
void gradient(const float* z, const float* y, const float* w, float* g, float* metrics, int64_t rows, int64_t columns) {
  double loss = 0, squares = 0;
  for (int64_t k = 0; k < columns; ++k) g[k] = 0;
  for (int64_t r = 0; r < rows; ++r, z += columns) {
    double sum = 0;
    for (int64_t k = 0; k < columns; ++k) sum += (double)z[k] * w[k];
    const float error = (float)(sum - y[r]), slope = 2 * error / rows;
    loss += (double)error * error;
    for (int64_t k = 0; k < columns; ++k) g[k] += slope * z[k];
  }
  for (int64_t k = 0; k < columns; ++k) squares += (double)g[k] * g[k];
  metrics[0] = (float)(loss / rows);
  metrics[1] = (float)sqrt(squares);
}

void update(float* w, const float* g, double rate, int64_t columns) {
  for (int64_t k = 0; k < columns; ++k) w[k] -= (float)rate * g[k];
}

// The same, with a norm of at most `limit`; what the gradient's norm is stands in the metrics.
void clipped_update(float* w, const float* g, const float* metrics, double rate, double limit, int64_t columns) {
  update(w, g, rate * limit / fmax(metrics[1], limit), columns);
}
