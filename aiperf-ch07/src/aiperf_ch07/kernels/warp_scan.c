// Inclusive prefix sums of 32-bit integers, which wrap around (as unsigned ones do in C).
#include <omp.h>
#include <stdint.h>

#define BLOCK (1 << 16)  // 256 KiB, which stay in a core's second-level cache

static uint32_t sum_of(const uint32_t* a, int64_t n) {
  uint32_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += a[i];
  return total;
}

#define LANES 16
typedef uint32_t vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// Sixteen at a time: each adds what stands 1, 2, 4 and 8 before it, and then what came before the sixteen.
static void scan(const uint32_t* a, uint32_t* b, int64_t n, uint32_t before) {
  const vec zero = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec v = *(const vec*)(a + i);
    v += __builtin_shuffle(zero, v, (vec){15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30});
    v += __builtin_shuffle(zero, v, (vec){14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29});
    v += __builtin_shuffle(zero, v, (vec){12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27});
    v += __builtin_shuffle(zero, v, (vec){8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
    v += before;
    *(vec*)(b + i) = v;
    before = v[LANES - 1];
  }
  for (; i < n; ++i) b[i] = before += a[i];
}

// One core, one element after the other.
void in_order(const void* a_ptr, void* b_ptr, int64_t n) {
  const uint32_t* a = a_ptr;
  uint32_t *b = b_ptr, total = 0;
  for (int64_t i = 0; i < n; ++i) b[i] = total += a[i];
}

// Cores take neighbouring pieces of `block` elements each, add up their own, meet, and scan it from what the others have.
static void in_pieces(const uint32_t* a, uint32_t* b, int64_t n, int64_t block) {
  uint32_t sums[1024], before_all = 0;
#pragma omp parallel num_threads(omp_get_max_threads() < 1024 ? omp_get_max_threads() : 1024)
  {
    const int64_t cores = omp_get_num_threads(), core = omp_get_thread_num();
    const int64_t piece = block ? block : (n + cores - 1) / cores;
    for (int64_t start = 0; start < n; start += cores * piece) {
      const int64_t from = start + core * piece < n ? start + core * piece : n;
      const int64_t length = from + piece < n ? piece : n - from;
      sums[core] = sum_of(a + from, length);
#pragma omp barrier
      uint32_t before = before_all;
      for (int64_t other = 0; other < core; ++other) before += sums[other];
      uint32_t after = before;
      for (int64_t other = core; other < cores; ++other) after += sums[other];
#pragma omp barrier
      if (core == 0) before_all = after;  // read after the next round's first barrier
      scan(a + from, b + from, length, before);
    }
  }
}
void two_passes(const void* a_ptr, void* b_ptr, int64_t n) { in_pieces(a_ptr, b_ptr, n, 0); }
void two_passes_cached(const void* a_ptr, void* b_ptr, int64_t n) { in_pieces(a_ptr, b_ptr, n, BLOCK); }
