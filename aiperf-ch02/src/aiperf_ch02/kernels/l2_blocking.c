// Eight passes x <- scales[k] x + shifts[k], one after the other or all at once.
#include <stdint.h>

#define PASSES 8

// Not inlined: the compiler is to see one pass only, as a caller of a library's operations does.
__attribute__((noinline)) static void one_pass(const float* from, float* to, float scale, float shift, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = scale * from[i] + shift;
}

// A processor takes a part of each chunk through all passes if the chunk is all there is, and else whole chunks.
void in_chunks(const float* x, float* out, const float* scales, const float* shifts, int64_t n, int64_t chunk) {
  if (chunk >= n) {
    for (int k = 0; k < PASSES; ++k) {
      const float* from = k ? out : x;
#pragma omp parallel for schedule(static)
      for (int64_t first = 0; first < n; first += 4096)
        one_pass(from + first, out + first, scales[k], shifts[k], n - first < 4096 ? n - first : 4096);
    }
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < n; first += chunk)
    for (int k = 0; k < PASSES; ++k)
      one_pass((k ? out : x) + first, out + first, scales[k], shifts[k], n - first < chunk ? n - first : chunk);
}

void fused(const float* restrict x, float* restrict out, const float* restrict scales, const float* restrict shifts,
           int64_t n) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i];
    for (int k = 0; k < PASSES; ++k) v = scales[k] * v + shifts[k];
    out[i] = v;
  }
}
