// Packed weights become bfloat16: out[i] = q[i] * scale[i / 128], with q of four bits (0 to 15, less 8; the low half of
// a byte first) or of eight (e4m3).
#include <stdint.h>
#include <string.h>

#define GROUP 128

typedef union {
  float value;
  uint32_t bits;
} word;

static inline float float_of(uint32_t bits) { return (word){.bits = bits}.value; }
// To the nearest bfloat16, ties to even, in the upper half of the word. There are no NaN here.
static inline uint32_t rounded(float value) {
  const uint32_t bits = (word){.value = value}.bits;
  return bits + 0x7fff + (bits >> 16 & 1);
}
static inline uint16_t bfloat16_of(float value) { return (uint16_t)(rounded(value) >> 16); }
// The exponent is moved to where a float has it, which makes the value 2^-120 of what it was.
static inline float e4m3(uint32_t byte) {
  return float_of((byte & 128) << 24 | (byte & 127) << 20) * 0x1p120f;
}

// A byte after the other: the compiler is kept from taking more of them in one instruction.
__attribute__((optimize("no-tree-vectorize"))) void byte4(const uint8_t* restrict packed,
                                                          const uint16_t* restrict scales, uint16_t* restrict out,
                                                          int64_t n) {
#pragma omp parallel for
  for (int64_t byte = 0; byte < (n + 1) / 2; ++byte) {
    int64_t i = 2 * byte;
    const float scale = float_of((uint32_t)scales[i / GROUP] << 16);
    out[i] = bfloat16_of((float)(packed[byte] % 16 - 8) * scale);
    if (i + 1 < n) out[i + 1] = bfloat16_of((float)(packed[byte] / 16 - 8) * scale);
  }
}
__attribute__((optimize("no-tree-vectorize"))) void byte8(const uint8_t* restrict packed,
                                                          const uint16_t* restrict scales, uint16_t* restrict out,
                                                          int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) out[i] = bfloat16_of(e4m3(packed[i]) * float_of((uint32_t)scales[i / GROUP] << 16));
}

// A group after the other: its scale is fetched once, and a loop of fixed length over it is what compilers make SIMD.
// Two neighbours are made at once, as the halves of a word.
static inline void group4(const uint8_t* restrict packed, float scale, uint16_t* restrict out) {
  uint32_t pairs[GROUP / 2];
  for (int i = 0; i < GROUP / 2; ++i) {
    const uint32_t low = rounded((float)((packed[i] & 15) - 8) * scale) >> 16;
    const uint32_t high = rounded((float)((packed[i] >> 4) - 8) * scale) & 0xffff0000;
    pairs[i] = high | low;
  }
  memcpy(out, pairs, sizeof pairs);
}
static inline void group8(const uint8_t* restrict packed, float scale, uint16_t* restrict out) {
  uint32_t words[GROUP];
  for (int i = 0; i < GROUP; ++i) words[i] = rounded(e4m3(packed[i]) * scale) >> 16;
  for (int i = 0; i < GROUP; ++i) out[i] = (uint16_t)words[i];
}
void wide4(const uint8_t* restrict packed, const uint16_t* restrict scales, uint16_t* restrict out, int64_t n) {
  const int64_t groups = n / GROUP;
#pragma omp parallel for
  for (int64_t g = 0; g < groups; ++g)
    group4(packed + g * GROUP / 2, float_of((uint32_t)scales[g] << 16), out + g * GROUP);
  for (int64_t i = groups * GROUP; i < n; ++i)
    out[i] =
        bfloat16_of((float)((packed[i / 2] >> 4 * (i % 2) & 15) - 8) * float_of((uint32_t)scales[i / GROUP] << 16));
}
void wide8(const uint8_t* restrict packed, const uint16_t* restrict scales, uint16_t* restrict out, int64_t n) {
  const int64_t groups = n / GROUP;
#pragma omp parallel for
  for (int64_t g = 0; g < groups; ++g)
    group8(packed + g * GROUP, float_of((uint32_t)scales[g] << 16), out + g * GROUP);
  for (int64_t i = groups * GROUP; i < n; ++i)
    out[i] = bfloat16_of(e4m3(packed[i]) * float_of((uint32_t)scales[i / GROUP] << 16));
}
