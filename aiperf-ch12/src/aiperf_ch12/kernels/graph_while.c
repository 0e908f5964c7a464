// Conjugate gradients for (1 + strength L) x = b: the whole iteration in one call.
#include <stdint.h>

static double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// q = A p for a grid of n x n with zeros around it; p times q.
static double apply(double* restrict q, const double* restrict p, int64_t n, double k) {
  double sum = 0;
  for (int64_t row = 0; row < n; ++row) {
    const double *here = p + row * n, *above = row ? here - n : 0, *below = row + 1 < n ? here + n : 0;
    double* out = q + row * n;
    for (int64_t i = 0; i < n; ++i) out[i] = (1 + 4 * k) * here[i];
    for (int64_t i = 0; above && i < n; ++i) out[i] -= k * above[i];
    for (int64_t i = 0; below && i < n; ++i) out[i] -= k * below[i];
    for (int64_t i = 1; i < n; ++i) out[i] -= k * here[i - 1];
    for (int64_t i = 0; i + 1 < n; ++i) out[i] -= k * here[i + 1];
    sum += dot(here, out, n);
  }
  return sum;
}

// How many iterations it took.
int64_t conjugate_gradients(double* restrict x, double* restrict r, double* restrict p, double* restrict q,
                            const double* restrict b, int64_t n, double strength, double accuracy, int64_t most) {
  int64_t count = n * n, iterations = 0;
  for (int64_t i = 0; i < count; ++i) x[i] = 0, r[i] = p[i] = b[i];
  double residual = dot(b, b, count), enough = accuracy * accuracy * residual;
  for (; residual > enough && iterations < most; ++iterations) {
    double alpha = residual / apply(q, p, n, strength), before = residual;
    for (int64_t i = 0; i < count; ++i) x[i] += alpha * p[i], r[i] -= alpha * q[i];
    residual = dot(r, r, count);
    for (int64_t i = 0; i < count; ++i) p[i] = r[i] + residual / before * p[i];
  }
  return iterations;
}
