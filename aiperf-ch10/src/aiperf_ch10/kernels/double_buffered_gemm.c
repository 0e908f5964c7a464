// C = A B^T for floats or bfloat16 (elements of 4 or 2 bytes), computed in floats, by tiles of 64 x 64 and steps of 64
// in k. Operands of a step are packed into a buffer, in which B is transposed, so that a row of it can be multiplied as
// vectors. The functions differ in when that takes place.
#include <stdint.h>

#define TILE 64
#define STEP 64
#define ROWS 4  // of C that are computed together: 4 x 16 sums in eight registers
#define LANES 8
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef struct {
  float a[TILE][STEP], b[STEP][TILE];
} Stage;
typedef struct {
  const void *a, *b;
  int64_t m, n, k, row, column;
} Work;

// bfloat16 is the upper half of a float, rounded to the nearest, ties to even.
typedef union {
  float value;
  uint32_t bits;
} Word;
INLINE float load(const void* p, int64_t i, int bytes) {
  if (bytes == 4) return ((const float*)p)[i];
  return (Word){.bits = (uint32_t)((const uint16_t*)p)[i] << 16}.value;
}
INLINE void store(void* p, int64_t i, int bytes, float value) {
  const uint32_t bits = (Word){.value = value}.bits;
  if (bytes == 4)
    ((float*)p)[i] = value;
  else
    ((uint16_t*)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Packs ROWS rows of each operand, from row `first` of the tile on; zeros beyond the edges.
INLINE void pack(Stage* stage, const Work* w, int64_t step, int first, int bytes) {
  const int64_t inside = w->k - step < STEP ? w->k - step : STEP;
  for (int r = first; r < first + ROWS; ++r) {
    const int64_t a = (w->row + r) * w->k + step, b = (w->column + r) * w->k + step;
    const int64_t a_inside = w->row + r < w->m ? inside : 0, b_inside = w->column + r < w->n ? inside : 0;
    for (int64_t i = 0; i < a_inside; ++i) stage->a[r][i] = load(w->a, a + i, bytes);
    for (int64_t i = a_inside; i < STEP; ++i) stage->a[r][i] = 0;
    for (int64_t i = 0; i < b_inside; ++i) stage->b[i][r] = load(w->b, b + i, bytes);
    for (int64_t i = b_inside; i < STEP; ++i) stage->b[i][r] = 0;
  }
}

INLINE void multiply(const Stage* stage, float (*c)[TILE], int first) {
  for (int column = 0; column < TILE; column += 2 * LANES) {
    vec left[ROWS], right[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      left[r] = *(const vec*)&c[first + r][column];
      right[r] = *(const vec*)&c[first + r][column + LANES];
    }
    for (int i = 0; i < STEP; ++i) {
      const vec b0 = *(const vec*)&stage->b[i][column], b1 = *(const vec*)&stage->b[i][column + LANES];
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        left[r] += stage->a[first + r][i] * b0;
        right[r] += stage->a[first + r][i] * b1;
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      *(vec*)&c[first + r][column] = left[r];
      *(vec*)&c[first + r][column + LANES] = right[r];
    }
  }
}

// One tile of C. `bytes` and `stages` are constants where it is called.
INLINE void tile_of(const Work* w, void* out, int bytes, int stages) {
  Stage stage[2];
  float c[TILE][TILE] = {0};
  int now = 0;
  if (stages == 2)
    for (int first = 0; first < TILE; first += ROWS) pack(&stage[0], w, 0, first, bytes);
  for (int64_t step = 0; step < w->k; step += STEP) {
    if (stages == 1)
      for (int first = 0; first < TILE; first += ROWS) pack(&stage[0], w, step, first, bytes);
    for (int first = 0; first < TILE; first += ROWS) {
      multiply(&stage[now], c, first);
      if (stages == 2 && step + STEP < w->k) pack(&stage[1 - now], w, step + STEP, first, bytes);
    }
    if (stages == 2) now = 1 - now;
  }
  for (int r = 0; r < TILE && w->row + r < w->m; ++r)
    for (int column = 0; column < TILE && w->column + column < w->n; ++column)
      store(out, (w->row + r) * w->n + w->column + column, bytes, c[r][column]);
}

INLINE void product(const void* a, const void* b, void* out, int64_t m, int64_t n, int64_t k, int bytes, int stages) {
  const int64_t down = (m + TILE - 1) / TILE, across = (n + TILE - 1) / TILE;
#pragma omp parallel for
  for (int64_t tile = 0; tile < down * across; ++tile) {
    const Work w = {a, b, m, n, k, tile / across * TILE, tile % across * TILE};
    if (bytes == 2 && stages == 1) tile_of(&w, out, 2, 1);
    if (bytes == 4 && stages == 1) tile_of(&w, out, 4, 1);
    if (bytes == 2 && stages == 2) tile_of(&w, out, 2, 2);
    if (bytes == 4 && stages == 2) tile_of(&w, out, 4, 2);
  }
}

// Packs a step, then multiplies it.
void one_stage2(const void* a, const void* b, void* out, int64_t m, int64_t n, int64_t k) {
  product(a, b, out, m, n, k, 2, 1);
}
void one_stage4(const void* a, const void* b, void* out, int64_t m, int64_t n, int64_t k) {
  product(a, b, out, m, n, k, 4, 1);
}
// Packs a part of the next step after each part of this one is multiplied, so that its loads are under way meanwhile.
void packed_ahead2(const void* a, const void* b, void* out, int64_t m, int64_t n, int64_t k) {
  product(a, b, out, m, n, k, 2, 2);
}
void packed_ahead4(const void* a, const void* b, void* out, int64_t m, int64_t n, int64_t k) {
  product(a, b, out, m, n, k, 4, 2);
}
