// out = p(x) at n points, with p given by its coefficients.
#include <omp.h>
#include <stdint.h>

#define LANES 64  // points that are computed at once: eight registers of 8, or four of 16

static void at_points(const float* restrict x, const float* restrict coefficients, float* restrict out, int64_t degree,
                      int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += LANES) {
    const int64_t here = end - i < LANES ? end - i : LANES;
    float t[LANES] = {0}, y[LANES];
    for (int64_t k = 0; k < here; ++k) t[k] = x[i + k];
    for (int k = 0; k < LANES; ++k) y[k] = coefficients[degree];
    for (int64_t power = degree - 1; power >= 0; --power)
      for (int k = 0; k < LANES; ++k) y[k] = y[k] * t[k] + coefficients[power];
    for (int64_t k = 0; k < here; ++k) out[i + k] = y[k];
  }
}

// A task for each piece of the points; the processors have as many of them, give or take one.
void in_pieces(const float* restrict x, const float* restrict coefficients, float* restrict out, int64_t n,
               int64_t degree, int64_t piece) {
#pragma omp parallel for schedule(static)
  for (int64_t begin = 0; begin < n; begin += piece)
    at_points(x, coefficients, out, degree, begin, begin + piece < n ? begin + piece : n);
}

// As many shares as threads, in whole lanes.
void even_shares(const float* restrict x, const float* restrict coefficients, float* restrict out, int64_t n,
                 int64_t degree) {
#pragma omp parallel
  {
    const int64_t groups = (n + LANES - 1) / LANES, all = omp_get_num_threads(), own = omp_get_thread_num();
    const int64_t begin = groups * own / all * LANES, end = groups * (own + 1) / all * LANES;
    at_points(x, coefficients, out, degree, begin, end < n ? end : n);
  }
}
