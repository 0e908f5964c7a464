// Square tiles, turned `passes` times between two memories of a processor: t <- 5 t^T + 1.
#include <omp.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 16  // words of a line

typedef void Pass(const uint32_t* from, uint32_t* to, int64_t side, int64_t stride);

// Rows are read, and columns written: a word of each line, and of the next column's the same lines again.
static void whole(const uint32_t* restrict from, uint32_t* restrict to, int64_t side, int64_t stride) {
  for (int64_t r = 0; r < side; ++r)
    for (int64_t c = 0; c < side; ++c) to[c * stride + r] = 5 * from[r * stride + c] + 1;
}

// The same, 16 x 16 words at a time.
static void in_blocks(const uint32_t* restrict from, uint32_t* restrict to, int64_t side, int64_t stride) {
  for (int64_t r0 = 0; r0 < side; r0 += BLOCK)
    for (int64_t c0 = 0; c0 < side; c0 += BLOCK) {
      const int64_t r_end = r0 + BLOCK < side ? r0 + BLOCK : side, c_end = c0 + BLOCK < side ? c0 + BLOCK : side;
      for (int64_t c = c0; c < c_end; ++c)
        for (int64_t r = r0; r < r_end; ++r) to[c * stride + r] = 5 * from[r * stride + c] + 1;
    }
}

// Each tile is copied to memory with rows of `stride` words, turned there, and copied out.
static void each_tile(Pass* pass, const int32_t* a, int32_t* out, int32_t* scratch, int64_t tiles, int64_t side,
                      int64_t stride, int64_t passes) {
  const size_t row = (size_t)side * sizeof *a;
#pragma omp parallel for schedule(static)
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int32_t* in = a + tile * side * side;
    uint32_t* from = (uint32_t*)scratch + omp_get_thread_num() * 2 * side * stride;
    uint32_t* to = from + side * stride;
    for (int64_t r = 0; r < side; ++r) memcpy(from + r * stride, in + r * side, row);
    for (int64_t k = 0; k < passes; ++k) {
      pass(from, to, side, stride);
      uint32_t* last = from;
      from = to, to = last;
    }
    for (int64_t r = 0; r < side; ++r) memcpy(out + (tile * side + r) * side, from + r * stride, row);
  }
}

void turn(const int32_t* a, int32_t* out, int32_t* scratch, int64_t tiles, int64_t side, int64_t stride,
          int64_t passes) {
  each_tile(whole, a, out, scratch, tiles, side, stride, passes);
}
void blocked(const int32_t* a, int32_t* out, int32_t* scratch, int64_t tiles, int64_t side, int64_t stride,
             int64_t passes) {
  each_tile(in_blocks, a, out, scratch, tiles, side, stride, passes);
}
