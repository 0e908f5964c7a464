// y = W x with weights of four bits, (q - 8) * scale; a scale serves a group of 128 weights of a row.
#include <stdint.h>

#define GROUP 128
#define LANES 16  // words of a group: word l has the columns l, l + 16, ..., l + 112, from its lowest bits on

typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// `codes` are [rows, groups, LANES], `scales` [rows, groups]; x has groups x GROUP numbers, and `shares` has room for 8
// times the sum of each group of x: what a row's codes are too large by, group by group.
void product(const int32_t* restrict codes, const float* restrict scales, const float* restrict x,
             float* restrict shares, float* restrict y, int64_t rows, int64_t groups) {
  for (int64_t g = 0; g < groups; ++g) {
    float sum = 0;
    for (int i = 0; i < GROUP; ++i) sum += x[g * GROUP + i];
    shares[g] = 8 * sum;
  }
  for (int64_t row = 0; row < rows; ++row) {
    vec totals = {0};
    float total = 0;
    for (int64_t g = 0; g < groups; ++g) {
      words packed = *(const words*)(codes + (row * groups + g) * LANES);
      vec even = {0}, odd = {0};
#pragma GCC unroll 4
      for (int i = 0; i < GROUP; i += 2 * LANES) {
        const vec* part = (const vec*)(x + g * GROUP + i);
        even += __builtin_convertvector((ints)(packed & 15), vec) * part[0];
        odd += __builtin_convertvector((ints)(packed >> 4 & 15), vec) * part[1];
        packed >>= 8;
      }
      const float scale = scales[row * groups + g];
      totals += scale * (even + odd);
      total -= scale * shares[g];
    }
    for (int lane = 0; lane < LANES; ++lane) total += totals[lane];
    y[row] = total;
  }
}
