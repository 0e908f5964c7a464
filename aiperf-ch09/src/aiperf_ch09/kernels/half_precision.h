// bfloat16 in C: the upper half of a float's bits. And an exponential that the compiler turns into vectors.
#pragma once
#include <stdint.h>
#include <string.h>

typedef uint16_t Half;

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline float widened(Half half) { return float_of((uint32_t)half << 16); }
// To the nearest, ties to even. Of a finite value.
static inline Half narrowed(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (Half)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float larger(float a, float b) { return a > b ? a : b; }
static inline float smaller(float a, float b) { return a < b ? a : b; }

// exp(x) = 2^whole * 2^part with part from -1/2 to 1/2, of which the Taylor series errs by 2e-7. The exponent of 2 is
// rounded to a float, which for x near 87 is another 4e-6. What is not between -87 and 88 is taken as that.
static inline float exponential(float x) {
  const float exponent = smaller(larger(x, -87.0f), 88.0f) * 1.44269504f;
  const float shifted = exponent + 12582912.0f;  // 1.5 * 2^23: the sum is rounded to a whole number
  const float whole = shifted - 12582912.0f, part = exponent - whole;
  float power = 1.5403530e-4f;
  power = power * part + 1.3333558e-3f;
  power = power * part + 9.6181291e-3f;
  power = power * part + 5.5504109e-2f;
  power = power * part + 2.4022651e-1f;
  power = power * part + 6.9314718e-1f;
  power = power * part + 1.0f;
  return power * float_of((uint32_t)((int32_t)whole + 127) << 23);
}
