// x = |x - c|, over and over, while the values stay in registers.
#include <stdint.h>
#include <string.h>

#define LANES 16
#define VECTORS 8
#define WIDTH (LANES * VECTORS)
#define PERIOD 5

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES)));

// c is 1, 1/2, 1/4, 1/8, 1/16 and again: all exact.
static const float offsets[PERIOD] = {1, 0.5f, 0.25f, 0.125f, 0.0625f};

// WIDTH values, in enough vectors to hide the latency of an operation.
static void block(const float* x, float* out, int64_t count) {
  vec values[VECTORS];
  memcpy(values, x, sizeof values);
  for (int64_t fold = 0, place = 0; fold < count; ++fold) {
    float offset = offsets[place];
    place = place + 1 < PERIOD ? place + 1 : 0;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; ++i) values[i] = (vec)((bits)(values[i] - offset) & 0x7fffffff);
  }
  memcpy(out, values, sizeof values);
}

void folds(const float* restrict x, float* restrict out, int64_t n, int64_t folds) {
  int64_t full = n - n % WIDTH;
  for (int64_t first = 0; first < full; first += WIDTH) block(x + first, out + first, folds);
  float rest[WIDTH] = {0};
  memcpy(rest, x + full, 4 * (n - full));
  block(rest, rest, folds);
  memcpy(out + full, rest, 4 * (n - full));
}
