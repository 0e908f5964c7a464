// y = tanh(A x) for A of floats, on the processor's cores. What differs is the order in which A is read.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define ROWS 4

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// A column is added to all sums before the next. Kept as a function, or the compiler would exchange the loops.
static __attribute__((noinline)) void add_column(const float* a, float factor, float* out, int64_t rows,
                                                 int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) out[row] += a[row * columns] * factor;
}
void column_by_column4(const float* a, const float* x, float* out, int64_t rows, int64_t columns) {
  const int64_t share = 1024;  // rows of a thread at a time
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row += share) {
    const int64_t count = rows - row < share ? rows - row : share;
    memset(out + row, 0, count * sizeof(float));
    for (int64_t j = 0; j < columns; ++j) add_column(a + row * columns + j, x[j], out + row, count, columns);
    for (int64_t r = row; r < row + count; ++r) out[r] = tanhf(out[r]);
  }
}

static float in_order(const float* row, const float* x, int64_t n) {
  float total = 0;
  for (int64_t j = 0; j < n; ++j) total += row[j] * x[j];
  return total;
}
void row_by_row4(const float* a, const float* x, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) out[row] = tanhf(in_order(a + row * columns, x, columns));
}

// `count` rows at the same time: a vector of x is loaded once for all of them.
static inline __attribute__((always_inline)) void in_lanes(const float* a, const float* x, float* out, int64_t columns,
                                                           int count) {
  vec totals[ROWS] = {0};
  const int64_t whole = columns / LANES * LANES;
  for (int64_t j = 0; j < whole; j += LANES) {
    const vec part = *(const vec*)(x + j);
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) totals[r] += *(const vec*)(a + r * columns + j) * part;
  }
  for (int r = 0; r < count; ++r) {
    float total = in_order(a + r * columns + whole, x + whole, columns - whole);
    for (int lane = 0; lane < LANES; ++lane) total += totals[r][lane];
    out[r] = tanhf(total);
  }
}
void lanes_along_row4(const float* a, const float* x, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) in_lanes(a + row * columns, x, out + row, columns, 1);
}
void four_rows4(const float* a, const float* x, float* out, int64_t rows, int64_t columns) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; row += ROWS) {
    if (row + ROWS <= rows)
      in_lanes(a + row * columns, x, out + row, columns, ROWS);
    else
      for (int64_t r = row; r < rows; ++r) in_lanes(a + r * columns, x, out + r, columns, 1);
  }
}
