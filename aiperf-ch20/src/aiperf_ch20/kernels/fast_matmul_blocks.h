// The functions of fast_matmul.c for one type of element, TYPE; NAME(x) makes their names. Sums of up to DEPTH products are
// WIDE, and REDUCED once; ADDED and LESS are the sum and the difference of two elements. COLUMNS of C are in registers.

#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define ROWS 4       // of C in registers

// out += a b, for n x n blocks whose rows begin `la`, `lb` and `lo` elements apart. `out` overlaps neither of the others.
static void NAME(add_product)(const TYPE* a, int64_t la, const TYPE* b, int64_t lb, TYPE* restrict out, int64_t lo,
                              int64_t n) {
  // A strip of B, one row after the other: in the first-level cache, whatever `lb` is.
  TYPE strip[DEPTH][COLUMNS];
  for (int64_t k0 = 0; k0 < n; k0 += DEPTH)
    for (int64_t j = 0; j < n; j += COLUMNS) {
      const int64_t depth = MIN(DEPTH, n - k0), columns = MIN(COLUMNS, n - j);
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t c = 0; c < COLUMNS; ++c) strip[k][c] = c < columns ? b[(k0 + k) * lb + j + c] : 0;
      for (int64_t i = 0; i < n; i += ROWS) {
        const int64_t rows = MIN(ROWS, n - i);
        WIDE sums[ROWS][COLUMNS] = {{0}};
        if (rows == ROWS)
          for (int64_t k = 0; k < depth; ++k) {
            const TYPE* x = a + i * la + k0 + k;
            for (int c = 0; c < COLUMNS; ++c) {  // one loop for four rows
              sums[0][c] += (WIDE)x[0] * strip[k][c];
              sums[1][c] += (WIDE)x[la] * strip[k][c];
              sums[2][c] += (WIDE)x[2 * la] * strip[k][c];
              sums[3][c] += (WIDE)x[3 * la] * strip[k][c];
            }
          }
        else  // the last rows
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t k = 0; k < depth; ++k)
              for (int c = 0; c < COLUMNS; ++c) sums[r][c] += (WIDE)a[(i + r) * la + k0 + k] * strip[k][c];
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            TYPE* to = out + (i + r) * lo + j + c;
            *to = ADDED(*to, REDUCED(sums[r][c]));
          }
      }
    }
}

// out += factor x, for m x m blocks.
static void NAME(add)(const TYPE* x, int64_t lx, int64_t factor, TYPE* restrict out, int64_t lo, int64_t m) {
  for (int64_t i = 0; i < m; ++i)
    if (factor > 0)
      for (int64_t j = 0; j < m; ++j) out[i * lo + j] = ADDED(out[i * lo + j], x[i * lx + j]);
    else
      for (int64_t j = 0; j < m; ++j) out[i * lo + j] = LESS(out[i * lo + j], x[i * lx + j]);
}

// The sum of the quadrants of x with four factors: in `to`, or where it lies if it is one quadrant. Its rows are *step
// elements apart.
static const TYPE* NAME(combined)(const TYPE* x, int64_t lx, const int64_t* factors, TYPE* to, int64_t m, int64_t* step) {
  int64_t parts = 0, last = 0;
  for (int q = 0; q < 4; ++q)
    if (factors[q]) ++parts, last = q;
  if (parts == 1 && factors[last] == 1) {
    *step = lx;
    return x + (last / 2) * m * lx + (last % 2) * m;
  }
  memset(to, 0, (size_t)(m * m) * sizeof *to);
  for (int q = 0; q < 4; ++q)
    if (factors[q]) NAME(add)(x + (q / 2) * m * lx + (q % 2) * m, lx, factors[q], to, m, m);
  *step = m;
  return to;
}

// out += a b, by a scheme of `rank` products on each of `levels` levels; n is a multiple of 2^levels. Of `scratch` a level
// uses 3 (n / 2)^2 elements: n^2 are enough for all levels.
static void NAME(multiply)(const TYPE* a, int64_t la, const TYPE* b, int64_t lb, TYPE* restrict out, int64_t lo,
                           int64_t n, int64_t levels, const int64_t* u, const int64_t* v, const int64_t* w, int64_t rank,
                           TYPE* restrict scratch) {
  if (!levels) {
    NAME(add_product)(a, la, b, lb, out, lo, n);
    return;
  }
  const int64_t m = n / 2;
  TYPE *left = scratch, *right = left + m * m, *part = right + m * m;
  for (int64_t r = 0; r < rank; ++r) {
    int64_t ls, lt;
    const TYPE* s = NAME(combined)(a, la, u + 4 * r, left, m, &ls);
    const TYPE* t = NAME(combined)(b, lb, v + 4 * r, right, m, &lt);
    memset(part, 0, (size_t)(m * m) * sizeof *part);
    NAME(multiply)(s, ls, t, lt, part, m, m, levels - 1, u, v, w, rank, part + m * m);
    for (int q = 0; q < 4; ++q)
      if (w[4 * r + q]) NAME(add)(part, m, w[4 * r + q], out + (q / 2) * m * lo + (q % 2) * m, lo, m);
  }
}

#undef MIN
#undef ROWS
#undef COLUMNS
#undef DEPTH
#undef TYPE
#undef WIDE
#undef REDUCED
#undef ADDED
#undef LESS
#undef NAME
