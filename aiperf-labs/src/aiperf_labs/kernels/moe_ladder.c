// Products of rows with the matrix of their expert, for rows that are sorted by expert: all experts in one call.
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "aiperf/row_products.h"

// Rows of an expert that a thread takes at a time.
#define BLOCK 48

// The rows of all experts, BLOCK at a time, by threads in turn; `order` and `ends` as in the Triton file. With `gather`,
// rows come from tokens and go to the sorted order, else from there to their slots. With `gated`, `wide` columns are
// gate and up side by side, and silu(gate) * up is stored: half as many.
static inline void over_groups(const float* x, const float* weights, const int64_t* order, const int32_t* ends,
                               float* out, int64_t experts, int64_t chosen, int64_t depth, int64_t wide, int gather,
                               int gated) {
  int64_t columns = gated ? wide / 2 : wide;
#pragma omp parallel
  {
    float* rows = calloc(BLOCK * (depth + wide), sizeof(float));
    float* results = rows + BLOCK * depth;
    int64_t block = 0;  // counted alike by all threads
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t first = e ? ends[e - 1] : 0; first < ends[e]; first += BLOCK, ++block) {
        if (block % omp_get_num_threads() != omp_get_thread_num()) continue;
        int64_t count = ends[e] - first < BLOCK ? ends[e] - first : BLOCK;
        for (int64_t r = 0; r < count; ++r) {
          int64_t source = gather ? order[first + r] / chosen : first + r;
          memcpy(rows + r * depth, x + source * depth, depth * sizeof(float));
        }
        product(rows, weights + e * depth * wide, results, count, wide, depth);
        for (int64_t r = 0; r < count; ++r) {
          float *result = results + r * wide, *target = out + (gather ? first + r : order[first + r]) * columns;
          if (!gated) memcpy(target, result, columns * sizeof(float));
          for (int64_t j = 0; gated && j < columns; ++j)
            target[j] = result[j] / (1 + exponential(-result[j])) * result[columns + j];
        }
      }
    }
    free(rows);
  }
}

void gathered(const float* x, const float* weights, const int64_t* order, const int32_t* ends, float* out,
              int64_t experts, int64_t chosen, int64_t depth, int64_t columns) {
  over_groups(x, weights, order, ends, out, experts, chosen, depth, columns, 1, 0);
}

void scattered(const float* x, const float* weights, const int64_t* order, const int32_t* ends, float* out,
               int64_t experts, int64_t chosen, int64_t depth, int64_t columns) {
  over_groups(x, weights, order, ends, out, experts, chosen, depth, columns, 0, 0);
}

void gathered_swiglu(const float* x, const float* weights, const int64_t* order, const int32_t* ends, float* out,
                     int64_t experts, int64_t chosen, int64_t depth, int64_t columns) {
  over_groups(x, weights, order, ends, out, experts, chosen, depth, 2 * columns, 1, 1);
}
