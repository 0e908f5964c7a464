// The sum of chosen words of a table, modulo 2^64.
#include <stdint.h>

#define AHEAD 16  // reads under way: more than a core's window holds of a loop that also adds

void sum(const int64_t* restrict table, const int64_t* restrict index, int64_t* restrict out, int64_t reads) {
  uint64_t total = 0;
  for (int64_t i = 0; i < reads; ++i) total += (uint64_t)table[index[i]];
  *out = (int64_t)total;
}

// A hint reads nothing and can fault nowhere, but the index that it needs must exist.
void sum_prefetched(const int64_t* restrict table, const int64_t* restrict index, int64_t* restrict out,
                    int64_t reads) {
  uint64_t total = 0;
  const int64_t last = reads > AHEAD ? reads - AHEAD : 0;
  for (int64_t i = 0; i < last; ++i) {
    __builtin_prefetch(table + index[i + AHEAD], 0, 0);
    total += (uint64_t)table[index[i]];
  }
  for (int64_t i = last; i < reads; ++i) total += (uint64_t)table[index[i]];
  *out = (int64_t)total;
}
