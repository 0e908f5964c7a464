// The experts of a mixture: all products of all experts in one call, a block of rows at a time.
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "aiperf/row_products.h"

// Rows of an expert that go through both products while they are in the cache.
#define BLOCK 48

// x: [tokens, width]; gate_up: [experts, width, 2 hidden]; down: [experts, hidden, width]; order: the slots (token *
// chosen + choice) sorted by expert; ends: the end of each expert's; slots: [tokens * chosen, width], the result.
void in_cache(const float* x, const float* gate_up, const float* down, const int64_t* order, const int32_t* ends,
              float* slots, int64_t experts, int64_t chosen, int64_t width, int64_t hidden) {
#pragma omp parallel
  {
    float* rows = calloc(BLOCK * (width + 2 * hidden + hidden + width), sizeof(float));
    float *wide = rows + BLOCK * width, *active = wide + BLOCK * 2 * hidden, *out = active + BLOCK * hidden;
    int64_t block = 0;  // counted alike by all threads, which take blocks in turn
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t first = e ? ends[e - 1] : 0; first < ends[e]; first += BLOCK, ++block) {
        if (block % omp_get_num_threads() != omp_get_thread_num()) continue;
        int64_t count = ends[e] - first < BLOCK ? ends[e] - first : BLOCK;
        for (int64_t r = 0; r < count; ++r)
          memcpy(rows + r * width, x + order[first + r] / chosen * width, width * sizeof(float));
        product(rows, gate_up + e * width * 2 * hidden, wide, count, 2 * hidden, width);
        for (int64_t r = 0; r < count; ++r)
          for (int64_t j = 0; j < hidden; ++j) {
            float gate = wide[r * 2 * hidden + j];
            active[r * hidden + j] = gate / (1 + exponential(-gate)) * wide[r * 2 * hidden + hidden + j];
          }
        product(active, down + e * hidden * width, out, count, width, hidden);
        for (int64_t r = 0; r < count; ++r)
          memcpy(slots + order[first + r] * width, out + r * width, width * sizeof(float));
      }
    }
    free(rows);
  }
}
