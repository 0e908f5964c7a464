// y = A x for a sparse A by rows, on the processor's cores. What differs is which part of A a core has.
#include <omp.h>
#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) float part_of_row(const int32_t* columns, const float* values,
                                                               const float* x, int64_t from, int64_t to, int in_lanes) {
  float sum = 0;
  if (in_lanes) {
#pragma omp simd reduction(+ : sum)
    for (int64_t k = from; k < to; ++k) sum += values[k] * x[columns[k]];
  } else {
    for (int64_t k = from; k < to; ++k) sum += values[k] * x[columns[k]];
  }
  return sum;
}

// Each core has as many rows as the others.
void rows_each(const int32_t* row_starts, const int32_t* columns, const float* values, const float* x, float* out,
               int64_t rows) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row)
    out[row] = part_of_row(columns, values, x, row_starts[row], row_starts[row + 1], 0);
}

// How many of the first `place` items of the merged list are ends of rows; each stands behind its row's last nonzero.
static int64_t ends_before(const int32_t* ends, int64_t rows, int64_t place) {
  const int64_t nonzeros = ends[rows - 1];
  int64_t low = place > nonzeros ? place - nonzeros : 0, high = place < rows ? place : rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ends[middle] < place - middle) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Each core has as many rows and nonzeros together, and adds what it has of the first and the last row.
static inline __attribute__((always_inline)) void equal_shares(const int32_t* row_starts, const int32_t* columns,
                                                               const float* values, const float* x, float* out,
                                                               int64_t rows, int in_lanes) {
  const int64_t items = rows + row_starts[rows];
  memset(out, 0, rows * sizeof(float));
#pragma omp parallel
  {
    const int64_t begin = items * omp_get_thread_num() / omp_get_num_threads();
    const int64_t stop = items * (omp_get_thread_num() + 1) / omp_get_num_threads();
    int64_t row = ends_before(row_starts + 1, rows, begin), k = begin - row;
    const int64_t first = row, last = ends_before(row_starts + 1, rows, stop);
    for (; row <= last && row < rows; ++row) {
      const int64_t to = row < last ? row_starts[row + 1] : stop - last;
      const float sum = part_of_row(columns, values, x, k, to, in_lanes);
      k = to;
      if (row != first && row != last) {
        out[row] = sum;
      } else {
#pragma omp atomic
        out[row] += sum;
      }
    }
  }
}
void merge_path(const int32_t* row_starts, const int32_t* columns, const float* values, const float* x, float* out,
                int64_t rows) {
  equal_shares(row_starts, columns, values, x, out, rows, 0);
}
void merge_path_simd(const int32_t* row_starts, const int32_t* columns, const float* values, const float* x, float* out,
                     int64_t rows) {
  equal_shares(row_starts, columns, values, x, out, rows, 1);
}
