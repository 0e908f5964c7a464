// out[i] = table[index[i]] for rows of `width` halves (bfloat16, of which only the bits count).
#include <stdint.h>
#include <string.h>

#define AHEAD 8  // rows: far enough for a row to arrive, near enough to be there still

// One row after the other. Where a row begins nobody can know before its index is read.
void row_by_row(const void* restrict table, const int32_t* restrict index, void* restrict out, int64_t rows,
                int64_t width) {
  const char* from = table;
  char* to = out;
  const int64_t bytes = 2 * width;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < rows; ++i) memcpy(to + i * bytes, from + index[i] * bytes, bytes);
}

// The lines of a row eight rows ahead are asked for while this one is copied.
static inline void prefetch(const char* row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0, 0);
}
void prefetched(const void* restrict table, const int32_t* restrict index, void* restrict out, int64_t rows,
                int64_t width) {
  const char* from = table;
  char* to = out;
  const int64_t bytes = 2 * width;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < rows; ++i) {
    if (i + AHEAD < rows) prefetch(from + index[i + AHEAD] * bytes, bytes);
    memcpy(to + i * bytes, from + index[i] * bytes, bytes);
  }
}
