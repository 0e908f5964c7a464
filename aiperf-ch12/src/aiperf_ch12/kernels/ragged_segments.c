// The mean of each segment of x, by two threads: of as many segments each, or of as many segments and elements together.
#include <stdint.h>

#define SHARES 64
#define LANES 8

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static float sum_of(const float* x, int64_t from, int64_t to) {
  vec sums[4] = {0};
  for (; from + 4 * LANES <= to; from += 4 * LANES)
    for (int k = 0; k < 4; ++k) sums[k] += *(const vec*)(x + from + k * LANES);
  const vec all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float total = 0;
  for (int lane = 0; lane < LANES; ++lane) total += all[lane];
  for (; from < to; ++from) total += x[from];
  return total;
}

static int64_t start_of(const int32_t* ends, int64_t segment) { return segment ? ends[segment - 1] : 0; }

static float mean_of(float sum, const int32_t* ends, int64_t segment) {
  const int64_t count = ends[segment] - start_of(ends, segment);
  return sum / (float)(count ? count : 1);
}

void segments_each(const float* x, const int32_t* ends, float* out, int64_t segments) {
#pragma omp parallel for schedule(static) num_threads(2)
  for (int64_t s = 0; s < segments; ++s) out[s] = mean_of(sum_of(x, start_of(ends, s), ends[s]), ends, s);
}

void queue(const float* x, const int32_t* ends, const int32_t* order, float* out, int64_t segments) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(2)
  for (int64_t k = 0; k < segments; ++k) {
    const int64_t s = order[k];
    out[s] = mean_of(sum_of(x, start_of(ends, s), ends[s]), ends, s);
  }
}

static int64_t ends_before(const int32_t* ends, int64_t segments, int64_t elements, int64_t place) {
  int64_t low = place > elements ? place - elements : 0, high = place < segments ? place : segments;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (ends[middle] <= place - middle - 1) low = middle + 1;
    else high = middle;
  }
  return low;
}

void merge_path(const float* x, const int32_t* ends, float* out, int64_t segments, int64_t elements) {
  int64_t owner[SHARES];
  float carry[SHARES];
  const int64_t all = segments + elements;
#pragma omp parallel for schedule(static) num_threads(2)
  for (int64_t share = 0; share < SHARES; ++share) {
    const int64_t first = all * share / SHARES, stop = all * (share + 1) / SHARES;
    int64_t s = ends_before(ends, segments, elements, first), at = first - s;
    const int64_t last = ends_before(ends, segments, elements, stop);
    for (; s < last; at = ends[s++]) out[s] = mean_of(sum_of(x, at, ends[s]), ends, s);
    owner[share] = s, carry[share] = sum_of(x, at, stop - last);
  }
  for (int64_t share = 0; share < SHARES; ++share)
    if (owner[share] < segments) out[owner[share]] += mean_of(carry[share], ends, owner[share]);
}
