// Inclusive prefix sums of 32-bit integers, which wrap around (as unsigned ones do in C).
#include <omp.h>
#include <stdint.h>

#define MOST_CORES 1024

static uint32_t sum_of(const uint32_t* a, int64_t n) {
  uint32_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += a[i];
  return total;
}

#define LANES 8
typedef uint32_t vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// Eight at a time: each adds what stands 1, 2 and 4 before it, and then what came before the eight.
static void scan(const uint32_t* a, uint32_t* out, int64_t n, uint32_t before) {
  const vec zero = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec v = *(const vec*)(a + i);
    v += __builtin_shuffle(zero, v, (vec){7, 8, 9, 10, 11, 12, 13, 14});
    v += __builtin_shuffle(zero, v, (vec){6, 7, 8, 9, 10, 11, 12, 13});
    v += __builtin_shuffle(zero, v, (vec){4, 5, 6, 7, 8, 9, 10, 11});
    *(vec*)(out + i) = v + before;
    before += v[LANES - 1];
  }
  for (; i < n; ++i) out[i] = before += a[i];
}

// One core, one element after the other.
void in_order(const void* a_ptr, void* out_ptr, int64_t n) {
  const uint32_t* a = a_ptr;
  uint32_t *out = out_ptr, total = 0;
  for (int64_t i = 0; i < n; ++i) out[i] = total += a[i];
}

// Each core adds up its part; when all have met, it scans the part from the sum of those before.
void two_passes(const void* a_ptr, void* out_ptr, int64_t n) {
  uint32_t sums[MOST_CORES];
#pragma omp parallel num_threads(omp_get_max_threads() < MOST_CORES ? omp_get_max_threads() : MOST_CORES)
  {
    const int64_t cores = omp_get_num_threads(), core = omp_get_thread_num();
    const int64_t from = core * n / cores, length = (core + 1) * n / cores - from;
    sums[core] = sum_of((const uint32_t*)a_ptr + from, length);
#pragma omp barrier
    uint32_t before = 0;
    for (int64_t other = 0; other < core; ++other) before += sums[other];
    scan((const uint32_t*)a_ptr + from, (uint32_t*)out_ptr + from, length, before);
  }
}
