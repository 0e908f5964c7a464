// C = A B for n x n matrices by a bilinear scheme, see fast_matmul_blocks.h. Without levels it is the plain product.
#include <stdint.h>
#include <string.h>

// Integers from 0 to the prime P - 1, modulo P. As 2^61 is 1 there, digits to the base 2^61 add up.
#define P ((UINT64_C(1) << 61) - 1)
typedef unsigned __int128 wide;

static inline uint64_t below_p(uint64_t x) { return x >= P ? x - P : x; }

static inline uint64_t reduced(wide x) {
  const uint64_t digits = ((uint64_t)x & P) + ((uint64_t)(x >> 61) & P) + (uint64_t)(x >> 122);
  return below_p((digits & P) + (digits >> 61));
}

#define TYPE uint64_t
#define WIDE wide
#define REDUCED(x) reduced(x)
#define ADDED(x, y) below_p((x) + (y))
#define LESS(x, y) below_p((x) + P - (y))
#define NAME(x) x##_of_integers
#define COLUMNS 1
#define DEPTH 64  // products below 2^122: their sum is below 2^128
#include "fast_matmul_blocks.h"

#define TYPE float
#define WIDE float
#define REDUCED(x) (x)
#define ADDED(x, y) ((x) + (y))
#define LESS(x, y) ((x) - (y))
#define NAME(x) x##_of_floats
#define COLUMNS 16
#define DEPTH 128
#include "fast_matmul_blocks.h"

void multiply_61(const int64_t* a, const int64_t* b, int64_t* out, int64_t n, int64_t levels, const int64_t* u,
                 const int64_t* v, const int64_t* w, int64_t rank, int64_t* scratch) {
  memset(out, 0, (size_t)(n * n) * sizeof *out);
  multiply_of_integers((const uint64_t*)a, n, (const uint64_t*)b, n, (uint64_t*)out, n, n, levels, u, v, w, rank,
                       (uint64_t*)scratch);
}

void multiply_32(const float* a, const float* b, float* out, int64_t n, int64_t levels, const int64_t* u,
                 const int64_t* v, const int64_t* w, int64_t rank, float* scratch) {
  memset(out, 0, (size_t)(n * n) * sizeof *out);
  multiply_of_floats(a, n, b, n, out, n, n, levels, u, v, w, rank, scratch);
}
