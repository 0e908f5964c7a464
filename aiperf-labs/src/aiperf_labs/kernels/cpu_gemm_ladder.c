// C = A B for n x n floats by rows. Every function does what the one above does, and one thing more.
#include <stdint.h>
#include <string.h>

#define ROWS 96      // of A and C in a block
#define DEPTH 256    // rows of B in a block; packed, 96 x 256 floats of A are 96 KiB
#define COLUMNS 512  // of B and C in a block: DEPTH x COLUMNS floats are 512 KiB, which the second-level cache holds
#define TALL 6       // rows of a register tile
#define WIDE 16      // and columns: 12 vectors of 8 floats, of the 16 that AVX2 has

// Any address is good enough for a vector.
typedef float Vector __attribute__((vector_size(32), aligned(4)));
#define LANES 8

static inline int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

void row_times_column(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float total = 0;
      for (int64_t k = 0; k < n; ++k) total += a[i * n + k] * b[k * n + j];
      out[i * n + j] = total;
    }
}

// Adds rows k0 to k_end of B to a piece of a row of C.
static inline void add_rows(const float* restrict a, const float* restrict b, float* restrict out, int64_t n, int64_t i,
                            int64_t k0, int64_t k_end, int64_t j0, int64_t j_end) {
  for (int64_t k = k0; k < k_end; ++k)
    for (int64_t j = j0; j < j_end; ++j) out[i * n + j] += a[i * n + k] * b[k * n + j];
}

void by_rows(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
  memset(out, 0, (size_t)(n * n) * sizeof *out);
  for (int64_t i = 0; i < n; ++i) add_rows(a, b, out, n, i, 0, n, 0, n);
}

// A tile of C: plus `depth` columns of A times rows of B. The next element of A down a column is `a_down` further, the
// next along a row `a_along`; the next row of B is `b_down` further.
static inline __attribute__((always_inline)) void add_tile(const float* a, int64_t a_down, int64_t a_along,
                                                           const float* b, int64_t b_down, float* out, int64_t out_down,
                                                           int64_t depth) {
  Vector sums[TALL][2];
  for (int i = 0; i < TALL; ++i)
    for (int v = 0; v < 2; ++v) sums[i][v] = *(const Vector*)(out + i * out_down + v * LANES);
  for (int64_t k = 0; k < depth; ++k) {
    const Vector left = *(const Vector*)(b + k * b_down), right = *(const Vector*)(b + k * b_down + LANES);
    for (int i = 0; i < TALL; ++i) {
      const float by = a[i * a_down + k * a_along];
      sums[i][0] += by * left;
      sums[i][1] += by * right;
    }
  }
  for (int i = 0; i < TALL; ++i)
    for (int v = 0; v < 2; ++v) *(Vector*)(out + i * out_down + v * LANES) = sums[i][v];
}

// The block of C with rows from i0 to i_end and columns from j0: plus the rows of B from k0. What no tile covers goes by
// rows; without tiles that is everything.
static inline void add_block(const float* restrict a, const float* restrict b, float* restrict out, int64_t n, int64_t i0,
                             int64_t i_end, int64_t k0, int64_t k_end, int64_t j0, int64_t j_end, int tiles) {
  const int64_t i_whole = tiles ? i0 + (i_end - i0) / TALL * TALL : i0;
  const int64_t j_whole = j0 + (j_end - j0) / WIDE * WIDE;
  for (int64_t j = j0; j < j_whole && i_whole > i0; j += WIDE)
    for (int64_t i = i0; i < i_whole; i += TALL)
      add_tile(a + i * n + k0, n, 1, b + k0 * n + j, n, out + i * n + j, n, k_end - k0);
  for (int64_t i = i0; i < i_whole; ++i) add_rows(a, b, out, n, i, k0, k_end, j_whole, j_end);
  for (int64_t i = i_whole; i < i_end; ++i) add_rows(a, b, out, n, i, k0, k_end, j0, j_end);
}

void register_tile(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
  memset(out, 0, (size_t)(n * n) * sizeof *out);
  add_block(a, b, out, n, 0, n, 0, n, 0, n, 1);
}

static void by_blocks(const float* restrict a, const float* restrict b, float* restrict out, int64_t n, int tiles,
                      int many) {
#pragma omp parallel for schedule(dynamic) if (many)
  for (int64_t i0 = 0; i0 < n; i0 += ROWS) {
    const int64_t i_end = least(i0 + ROWS, n);
    memset(out + i0 * n, 0, (size_t)((i_end - i0) * n) * sizeof *out);
    for (int64_t j0 = 0; j0 < n; j0 += COLUMNS)
      for (int64_t k0 = 0; k0 < n; k0 += DEPTH)
        add_block(a, b, out, n, i0, i_end, k0, least(k0 + DEPTH, n), j0, least(j0 + COLUMNS, n), tiles);
  }
}
void blocked(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
  by_blocks(a, b, out, n, 1, 0);
}
void without_register_tile(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
  by_blocks(a, b, out, n, 0, 1);
}
void without_packing(const float* restrict a, const float* restrict b, float* restrict out, int64_t n) {
  by_blocks(a, b, out, n, 1, 1);
}

// WIDE columns of B from (k0, j0), row after row; zeros beyond the edge.
static void pack_b(const float* restrict b, float* restrict panel, int64_t n, int64_t k0, int64_t k_end, int64_t j0) {
  const int64_t wide = least(WIDE, n - j0);
  for (int64_t k = k0; k < k_end; ++k, panel += WIDE)
    for (int64_t j = 0; j < WIDE; ++j) panel[j] = j < wide ? b[k * n + j0 + j] : 0;
}
// TALL rows of A from (i0, k0), column after column; zeros beyond the edge.
static void pack_a(const float* restrict a, float* restrict panel, int64_t n, int64_t i0, int64_t k0, int64_t k_end) {
  for (int64_t k = k0; k < k_end; ++k, panel += TALL)
    for (int64_t i = 0; i < TALL; ++i) panel[i] = i0 + i < n ? a[(i0 + i) * n + k] : 0;
}

// The tile of C at (i, j) from packed panels. A tile that overhangs is summed beside C, and what is inside is added.
static inline void add_packed(const float* a_panel, const float* b_panel, float* restrict out, int64_t n, int64_t i,
                              int64_t j, int64_t depth) {
  if (i + TALL <= n && j + WIDE <= n) {
    add_tile(a_panel, 1, TALL, b_panel, WIDE, out + i * n + j, n, depth);
    return;
  }
  float tile[TALL * WIDE] = {0};
  add_tile(a_panel, 1, TALL, b_panel, WIDE, tile, WIDE, depth);
  for (int64_t y = 0; y < least(TALL, n - i); ++y)
    for (int64_t x = 0; x < least(WIDE, n - j); ++x) out[(i + y) * n + j + x] += tile[y * WIDE + x];
}

// `panels` has room for DEPTH x COLUMNS floats of B, which all threads share; each packs its own rows of A.
static void by_panels(const float* restrict a, const float* restrict b, float* restrict panels, float* restrict out,
                      int64_t n, int many) {
#pragma omp parallel if (many)
  {
    float rows[ROWS * DEPTH];
#pragma omp for
    for (int64_t i = 0; i < n; ++i) memset(out + i * n, 0, (size_t)n * sizeof *out);
    for (int64_t j0 = 0; j0 < n; j0 += COLUMNS)
      for (int64_t k0 = 0; k0 < n; k0 += DEPTH) {
        const int64_t j_end = least(j0 + COLUMNS, n), k_end = least(k0 + DEPTH, n), depth = k_end - k0;
#pragma omp for
        for (int64_t j = j0; j < j_end; j += WIDE) pack_b(b, panels + (j - j0) * depth, n, k0, k_end, j);
        // Both loops end with a barrier: B is packed before it is read, and read before it is packed again.
#pragma omp for schedule(dynamic)
        for (int64_t i0 = 0; i0 < n; i0 += ROWS) {
          const int64_t i_end = least(i0 + ROWS, n);
          for (int64_t i = i0; i < i_end; i += TALL) pack_a(a, rows + (i - i0) * depth, n, i, k0, k_end);
          for (int64_t j = j0; j < j_end; j += WIDE)
            for (int64_t i = i0; i < i_end; i += TALL)
              add_packed(rows + (i - i0) * depth, panels + (j - j0) * depth, out, n, i, j, depth);
        }
      }
  }
}
void packed(const float* restrict a, const float* restrict b, float* restrict panels, float* restrict out, int64_t n) {
  by_panels(a, b, panels, out, n, 0);
}
void threads(const float* restrict a, const float* restrict b, float* restrict panels, float* restrict out, int64_t n) {
  by_panels(a, b, panels, out, n, 1);
}
