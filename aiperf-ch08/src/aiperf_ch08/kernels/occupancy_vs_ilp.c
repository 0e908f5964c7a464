// Walks through a table of random places. What differs is how many walks a thread has under way.
#include <stdint.h>

// The last walks, fewer than `count`, go one by one.
static inline __attribute__((always_inline)) void walk(const int32_t* table, const int32_t* start, int32_t* out,
                                                       int64_t hops, int64_t walks, int count) {
#pragma omp parallel for schedule(static)
  for (int64_t at = 0; at < walks; at += count) {
    if (at + count <= walks) {
      int32_t place[8];
#pragma GCC unroll 8
      for (int w = 0; w < count; ++w) place[w] = start[at + w];
      for (int64_t hop = 0; hop < hops; ++hop)
#pragma GCC unroll 8
        for (int w = 0; w < count; ++w) place[w] = table[place[w]];
#pragma GCC unroll 8
      for (int w = 0; w < count; ++w) out[at + w] = place[w];
    } else {
      for (int64_t w = at; w < walks; ++w) {
        int32_t place = start[w];
        for (int64_t hop = 0; hop < hops; ++hop) place = table[place];
        out[w] = place;
      }
    }
  }
}
void one_walk(const int32_t* table, const int32_t* start, int32_t* out, int64_t hops, int64_t walks) {
  walk(table, start, out, hops, walks, 1);
}
void two_walks(const int32_t* table, const int32_t* start, int32_t* out, int64_t hops, int64_t walks) {
  walk(table, start, out, hops, walks, 2);
}
void four_walks(const int32_t* table, const int32_t* start, int32_t* out, int64_t hops, int64_t walks) {
  walk(table, start, out, hops, walks, 4);
}
void eight_walks(const int32_t* table, const int32_t* start, int32_t* out, int64_t hops, int64_t walks) {
  walk(table, start, out, hops, walks, 8);
}
