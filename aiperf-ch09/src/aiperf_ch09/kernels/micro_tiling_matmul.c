// C = A B by rows in float32, on all cores, by blocks of B that stay in the second-level cache.
#include <stdint.h>
#include <string.h>

#define ROWS 96      // of A and C in a block
#define DEPTH 256    // rows of B in a block
#define COLUMNS 512  // and columns: 512 KiB
#define TALL 6       // rows of a register tile
#define WIDE 16      // and columns: 12 vectors of 8 floats, of the 16 that AVX2 has
#define LANES 8

// Any address is good enough for a vector.
typedef float Vector __attribute__((vector_size(32), aligned(4)));

static inline int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

// A piece of a row of C: plus rows k0 to k_end of B, each times an element of A. C is loaded and stored for each of them.
static inline void add_rows(const float* restrict a_row, const float* restrict b, float* restrict out_row,
                            int64_t columns, int64_t k0, int64_t k_end, int64_t j0, int64_t j_end) {
  for (int64_t k = k0; k < k_end; ++k)
    for (int64_t j = j0; j < j_end; ++j) out_row[j] += a_row[k] * b[k * columns + j];
}

// A tile of C that stays in registers for `count` products of a column of A and a row of B.
static inline __attribute__((always_inline)) void add_tile(const float* a, int64_t depth, const float* b, int64_t columns,
                                                           float* out, int64_t count) {
  Vector sums[TALL][2];
  for (int i = 0; i < TALL; ++i)
    for (int v = 0; v < 2; ++v) sums[i][v] = *(const Vector*)(out + i * columns + v * LANES);
  for (int64_t k = 0; k < count; ++k) {
    const Vector left = *(const Vector*)(b + k * columns), right = *(const Vector*)(b + k * columns + LANES);
    for (int i = 0; i < TALL; ++i) {
      sums[i][0] += a[i * depth + k] * left;
      sums[i][1] += a[i * depth + k] * right;
    }
  }
  for (int i = 0; i < TALL; ++i)
    for (int v = 0; v < 2; ++v) *(Vector*)(out + i * columns + v * LANES) = sums[i][v];
}

// Both: rows of A and C in blocks. What no tile covers goes by rows; without tiles that is everything.
static inline void by_blocks(const float* restrict a, const float* restrict b, float* restrict out, int64_t rows,
                             int64_t columns, int64_t depth, int tiles) {
#pragma omp parallel for schedule(dynamic)
  for (int64_t i0 = 0; i0 < rows; i0 += ROWS) {
    const int64_t i_end = least(i0 + ROWS, rows), i_whole = tiles ? i0 + (i_end - i0) / TALL * TALL : i0;
    memset(out + i0 * columns, 0, (size_t)((i_end - i0) * columns) * sizeof *out);
    for (int64_t j0 = 0; j0 < columns; j0 += COLUMNS)
      for (int64_t k0 = 0; k0 < depth; k0 += DEPTH) {
        const int64_t j_end = least(j0 + COLUMNS, columns), k_end = least(k0 + DEPTH, depth);
        const int64_t j_whole = j0 + (j_end - j0) / WIDE * WIDE;
        for (int64_t j = j0; j < j_whole && i_whole > i0; j += WIDE)
          for (int64_t i = i0; i < i_whole; i += TALL)
            add_tile(a + i * depth + k0, depth, b + k0 * columns + j, columns, out + i * columns + j, k_end - k0);
        for (int64_t i = i0; i < i_end; ++i)
          add_rows(a + i * depth, b, out + i * columns, columns, k0, k_end, i < i_whole ? j_whole : j0, j_end);
      }
  }
}
void blocked(const float* restrict a, const float* restrict b, float* restrict out, int64_t rows, int64_t columns,
             int64_t depth) {
  by_blocks(a, b, out, rows, columns, depth, 0);
}
void register_tile(const float* restrict a, const float* restrict b, float* restrict out, int64_t rows, int64_t columns,
                   int64_t depth) {
  by_blocks(a, b, out, rows, columns, depth, 1);
}
