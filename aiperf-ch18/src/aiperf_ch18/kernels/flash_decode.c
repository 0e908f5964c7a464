// Attention of one query a head to a long cache, on a CPU. bfloat16 is passed as 16-bit words; all sums are float32.
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 64 };  // keys whose scores are computed before the maximum is raised

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

// One query and `count` keys: mixed[width] is the weighted sum of values, not divided by the sum of weights, *total.
static void over_keys(const uint16_t* q, const uint16_t* keys, const uint16_t* values, int64_t count, int64_t width,
                      float* mixed, float* top, float* total) {
  const float scale = 1.0f / sqrtf((float)width);
  float scores[BLOCK];
  *top = -INFINITY, *total = 0.0f;
  memset(mixed, 0, (size_t)width * sizeof *mixed);
  for (int64_t start = 0; start < count; start += BLOCK) {
    const int64_t here = count - start < BLOCK ? count - start : BLOCK;
    float raised = *top;
    for (int64_t i = 0; i < here; ++i) {
      const uint16_t* key = keys + (start + i) * width;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < width; ++d) sum += wide(q[d]) * wide(key[d]);
      scores[i] = sum * scale;
      raised = fmaxf(raised, scores[i]);
    }
    const float kept = expf(*top - raised);
    *total *= kept, *top = raised;
    for (int64_t d = 0; d < width; ++d) mixed[d] *= kept;
    for (int64_t i = 0; i < here; ++i) {
      const uint16_t* value = values + (start + i) * width;
      const float weight = expf(scores[i] - raised);
      *total += weight;
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) mixed[d] += weight * wide(value[d]);
    }
  }
}

// A thread a row. mixed is memory for a value of each element of the queries, tops and totals for each query.
void per_row(const uint16_t* q, const uint16_t* keys, const uint16_t* values, uint16_t* out, float* mixed, float* tops,
             float* totals, int64_t rows, int64_t group, int64_t length, int64_t width) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = row * length * width;
    for (int64_t head = row * group; head < (row + 1) * group; ++head) {
      float* sum = mixed + head * width;
      over_keys(q + head * width, keys + begin, values + begin, length, width, sum, tops + head, totals + head);
      for (int64_t d = 0; d < width; ++d) out[head * width + d] = narrow(sum[d] / totals[head]);
    }
  }
}

// A thread a row and part of `span` keys, then the sum of the parts. mixed has rows * splits * group * width values.
void split(const uint16_t* q, const uint16_t* keys, const uint16_t* values, uint16_t* out, float* mixed, float* tops,
           float* totals, int64_t rows, int64_t group, int64_t length, int64_t width, int64_t span, int64_t splits) {
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t number = 0; number < splits; ++number) {
      const int64_t first = number * span, last = first + span < length ? first + span : length;
      const int64_t begin = (row * length + first) * width;
      for (int64_t head = row * group; head < (row + 1) * group; ++head) {
        const int64_t part = head * splits + number;
        over_keys(q + head * width, keys + begin, values + begin, last - first, width, mixed + part * width,
                  tops + part, totals + part);
      }
    }
  for (int64_t head = 0; head < rows * group; ++head) {
    float top = -INFINITY, total = 0.0f;
    float* sum = mixed + head * splits * width;  // of the first part, to which the others are added
    for (int64_t part = head * splits; part < (head + 1) * splits; ++part) top = fmaxf(top, tops[part]);
    for (int64_t part = head * splits; part < (head + 1) * splits; ++part) {
      const float share = expf(tops[part] - top);
      total += share * totals[part];
      for (int64_t d = 0; d < width; ++d)
        sum[d] = share * mixed[part * width + d] + (part == head * splits ? 0.0f : sum[d]);
    }
    for (int64_t d = 0; d < width; ++d) out[head * width + d] = narrow(sum[d] / total);
  }
}
