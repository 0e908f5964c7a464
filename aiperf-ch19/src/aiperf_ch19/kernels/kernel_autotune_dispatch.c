// out = x w for rows of x [rows, depth] and w [depth, columns], in tiles of ROWS x COLUMNS that stay in registers.
#include <stdint.h>
#include <string.h>

// Eight floats, loaded from any address.
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
#define LANES 8
#define UNROLLED _Pragma("GCC unroll 16")

static inline int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

// What is left of the columns, one by one.
static void rest(const float* x, const float* w, float* out, int64_t rows, int64_t depth, int64_t columns, int64_t from) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = from; j < columns; ++j) {
      float total = 0;
      for (int64_t k = 0; k < depth; ++k) total += x[i * depth + k] * w[k * columns + j];
      out[i * columns + j] = total;
    }
}

// A tile beyond the last row takes that row again and stores nothing of it: a tile that is too tall is wasted work.
#define TILE(ROWS, COLUMNS)                                                                                      \
  if (tile_rows == ROWS && tile_columns == COLUMNS) {                                                            \
    const int64_t whole = columns / COLUMNS * COLUMNS;                                                           \
    for (int64_t j = 0; j < whole; j += COLUMNS)                                                                 \
      for (int64_t i = 0; i < rows; i += ROWS) {                                                                 \
        const float* row[ROWS];                                                                                  \
        UNROLLED for (int m = 0; m < ROWS; ++m) row[m] = x + least(i + m, rows - 1) * depth;                     \
        vec total[ROWS][COLUMNS / LANES];                                                                        \
        UNROLLED for (int m = 0; m < ROWS; ++m)                                                                  \
          UNROLLED for (int c = 0; c < COLUMNS / LANES; ++c) total[m][c] = (vec){0};                             \
        for (int64_t k = 0; k < depth; ++k) {                                                                    \
          const vec* line = (const vec*)(w + k * columns + j);                                                   \
          UNROLLED for (int m = 0; m < ROWS; ++m)                                                                \
            UNROLLED for (int c = 0; c < COLUMNS / LANES; ++c) total[m][c] += row[m][k] * line[c];               \
        }                                                                                                        \
        UNROLLED for (int m = 0; m < ROWS; ++m)                                                                  \
          UNROLLED for (int c = 0; c < COLUMNS / LANES; ++c)                                                     \
            if (i + m < rows) *(vec*)(out + (i + m) * columns + j + c * LANES) = total[m][c];                    \
      }                                                                                                          \
    rest(x, w, out, rows, depth, columns, whole);                                                                \
    return 0;                                                                                                    \
  }
#define OF_ROWS(ROWS) TILE(ROWS, 8) TILE(ROWS, 16) TILE(ROWS, 32)

// A tile that is none of these gives 1, and nothing is done.
int64_t product(const float* x, const float* w, float* out, int64_t rows, int64_t depth, int64_t columns,
                int64_t tile_rows, int64_t tile_columns) {
  OF_ROWS(1)
  OF_ROWS(2)
  OF_ROWS(4)
  OF_ROWS(6)
  OF_ROWS(8)
  return 1;
}
