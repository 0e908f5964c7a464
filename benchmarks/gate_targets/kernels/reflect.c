// b = middle - a, by an odd number of reflections x -> middle - x: in `rounds` rounds they come in pairs and cancel, and one
// is left for the end. sign is -1, which the compiler does not know; nor, then, that a pair changes nothing.
#include <stdint.h>
#define PAIRS 16

// One thread, and one element after the other: every multiply-add waits for the one before it.
void reflect(const float* restrict a, float* restrict b, int64_t n, int64_t rounds, float sign, float middle) {
  for (int64_t i = 0; i < n; ++i) {
    float x = a[i];
    for (int64_t round = 0; round < rounds; ++round) {
      for (int step = 0; step < 2 * PAIRS; ++step) x = sign * x + middle;
    }
    b[i] = sign * x + middle;
  }
}
