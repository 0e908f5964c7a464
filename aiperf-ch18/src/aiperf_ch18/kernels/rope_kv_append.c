// Rotate queries and keys by their positions, and put keys and values into a paged cache. bfloat16 as 16-bit words.
#include <stdint.h>
#include <string.h>

static inline float wide(uint16_t word) {
  const uint32_t bits = (uint32_t)word << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, ties to even. Nothing here is NaN.
static inline uint16_t narrow(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// `count` heads that lie one after the other; pair i is (i * step, i * step + apart). A line of the table is `half`
// cosines, then `half` sines.
static void turn(const uint16_t* restrict from, uint16_t* restrict to, const float* restrict line, int64_t count,
                 int64_t half, int64_t step, int64_t apart) {
  for (int64_t head = 0; head < count; ++head, from += 2 * half, to += 2 * half)
    for (int64_t i = 0; i < half; ++i) {
      const float first = wide(from[i * step]), second = wide(from[i * step + apart]);
      to[i * step] = narrow(first * line[i] - second * line[half + i]);
      to[i * step + apart] = narrow(second * line[i] + first * line[half + i]);
    }
}

void fused(const uint16_t* qkv, const int64_t* positions, const int64_t* slots, const float* table, uint16_t* q,
           uint16_t* key_cache, uint16_t* value_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t width,
           int64_t interleaved) {
  const int64_t half = width / 2, row = (heads + 2 * kv_heads) * width, kept = kv_heads * width;
#pragma omp parallel for schedule(static)
  for (int64_t token = 0; token < tokens; ++token) {
    const uint16_t* from = qkv + token * row;
    const float* line = table + positions[token] * width;
    uint16_t *turned = q + token * heads * width, *keys = key_cache + slots[token] * kept;
    if (interleaved) {  // constants, for which the compiler makes loops of their own
      turn(from, turned, line, heads, half, 2, 1);
      turn(from + heads * width, keys, line, kv_heads, half, 2, 1);
    } else {
      turn(from, turned, line, heads, half, 1, half);
      turn(from + heads * width, keys, line, kv_heads, half, 1, half);
    }
    memcpy(value_cache + slots[token] * kept, from + heads * width + kept, (size_t)kept * sizeof *from);
  }
}
