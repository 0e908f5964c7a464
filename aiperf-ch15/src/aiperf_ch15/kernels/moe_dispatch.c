// Rows of tokens grouped by expert, on a CPU. Threads have consecutive tokens and counts of their own, so that the rows
// of an expert are in the order of their tokens.
#include <omp.h>
#include <stdint.h>
#include <string.h>

// The largest logits of a token, in any order. No two are equal.
static void choose(const float* logits, int64_t* routes, int64_t experts, int64_t chosen) {
  float kept[chosen];  // in falling order
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (count == chosen && logits[e] < kept[count - 1]) continue;
    int64_t place = count < chosen ? count++ : count - 1;
    for (; place > 0 && kept[place - 1] < logits[e]; --place)
      kept[place] = kept[place - 1], routes[place] = routes[place - 1];
    kept[place] = logits[e], routes[place] = e;
  }
}

static void dispatch(const float* logits, const uint16_t* x, int64_t* routes, int32_t* counts, uint16_t* rows,
                     int32_t* sources, int32_t* ends, int64_t tokens, int64_t experts, int64_t chosen, int64_t width) {
#pragma omp parallel
  {
    const int64_t threads = omp_get_num_threads(), own = omp_get_thread_num();
    const int64_t first = tokens * own / threads, last = tokens * (own + 1) / threads;
    int32_t* count = counts + own * experts;  // then the next place of each expert
    memset(count, 0, experts * sizeof *count);
    for (int64_t token = first; token < last; ++token) {
      if (logits) choose(logits + token * experts, routes + token * chosen, experts, chosen);
      for (int64_t choice = 0; choice < chosen; ++choice) ++count[routes[token * chosen + choice]];
    }
#pragma omp barrier
#pragma omp single
    {
      int32_t place = 0;
      for (int64_t e = 0; e < experts; ++e) {
        for (int64_t t = 0; t < threads; ++t) {
          const int32_t here = counts[t * experts + e];
          counts[t * experts + e] = place, place += here;
        }
        ends[e] = place;
      }
    }
    for (int64_t token = first; token < last; ++token)
      for (int64_t choice = 0; choice < chosen; ++choice) {
        const int64_t place = count[routes[token * chosen + choice]]++;
        sources[place] = token;
        memcpy(rows + place * width, x + token * width, width * sizeof *rows);
      }
  }
}

// counts is memory for threads * experts.
void counting(int64_t* routes, const uint16_t* x, int32_t* counts, uint16_t* rows, int32_t* sources, int32_t* ends,
              int64_t tokens, int64_t experts, int64_t chosen, int64_t width) {
  dispatch(NULL, x, routes, counts, rows, sources, ends, tokens, experts, chosen, width);
}

void fused(const float* logits, const uint16_t* x, int64_t* routes, int32_t* counts, uint16_t* rows, int32_t* sources,
           int32_t* ends, int64_t tokens, int64_t experts, int64_t chosen, int64_t width) {
  dispatch(logits, x, routes, counts, rows, sources, ends, tokens, experts, chosen, width);
}
