// Words that lie on a line, and pages that are touched before anybody writes them.
#include <stdint.h>

// out[i] = first + i * step, modulo 2^64.
void ramp(const int64_t* restrict line, int64_t* restrict out, int64_t n) {
  const uint64_t first = (uint64_t)line[0], step = (uint64_t)line[1];
  for (int64_t i = 0; i < n; ++i) out[i] = (int64_t)(first + step * (uint64_t)i);
}

// A word of each page, by two threads that have a half each.
void touch(volatile int64_t* out, int64_t n, int64_t page_words) {
#pragma omp parallel for schedule(static) num_threads(2)
  for (int64_t i = 0; i < n; i += page_words) out[i] = 0;
}
