// Attention of one query a head to sequences in pages, on a CPU. bfloat16 is passed as 16-bit words; sums are float32.
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 64 };  // keys of a page whose scores are computed before the maximum is raised

static inline float wide(uint16_t word) {
  const uint32_t bits = (uint32_t)word << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, ties to even. No result here is NaN.
static inline uint16_t narrow(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// `count` keys in a row for one query: they are added to mixed[width], the weighted sum of values, and to *total.
static void over_keys(const uint16_t* q, const uint16_t* keys, const uint16_t* values, int64_t count, int64_t width,
                      float* mixed, float* top, float* total) {
  const float scale = 1.0f / sqrtf((float)width);
  float scores[BLOCK], raised = *top;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t* key = keys + i * width;
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < width; ++d) sum += wide(q[d]) * wide(key[d]);
    scores[i] = sum * scale;
    raised = fmaxf(raised, scores[i]);
  }
  const float kept = expf(*top - raised);
  *total *= kept, *top = raised;
  for (int64_t d = 0; d < width; ++d) mixed[d] *= kept;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t* value = values + i * width;
    const float weight = expf(scores[i] - raised);
    *total += weight;
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) mixed[d] += weight * wide(value[d]);
  }
}

// q, out, mixed: [sequences, kv_heads * group, width]. keys, values: [pages, kv_heads, page, width]. A thread takes the
// next head of a sequence when it is free; its queries share each page while it is in the cache.
void paged(const uint16_t* q, const uint16_t* keys, const uint16_t* values, const int32_t* tables,
           const int32_t* lengths, uint16_t* out, float* mixed, int64_t sequences, int64_t kv_heads, int64_t group,
           int64_t page, int64_t most, int64_t width) {
#pragma omp parallel for schedule(dynamic) collapse(2)
  for (int64_t sequence = 0; sequence < sequences; ++sequence)
    for (int64_t head = 0; head < kv_heads; ++head) {
      const int64_t first = (sequence * kv_heads + head) * group;
      float tops[group], totals[group];
      for (int64_t g = 0; g < group; ++g) tops[g] = -INFINITY, totals[g] = 0.0f;
      memset(mixed + first * width, 0, (size_t)(group * width) * sizeof *mixed);
      int64_t step;
      for (int64_t start = 0; start < lengths[sequence]; start += step) {
        const int64_t offset = start % page, left = lengths[sequence] - start;
        step = page - offset < left ? page - offset : left;
        if (step > BLOCK) step = BLOCK;
        const int64_t at = ((tables[sequence * most + start / page] * kv_heads + head) * page + offset) * width;
        for (int64_t g = 0; g < group; ++g)
          over_keys(q + (first + g) * width, keys + at, values + at, step, width, mixed + (first + g) * width, tops + g,
                    totals + g);
      }
      for (int64_t g = 0; g < group; ++g)
        for (int64_t d = 0; d < width; ++d)
          out[(first + g) * width + d] = narrow(mixed[(first + g) * width + d] / totals[g]);
    }
}
