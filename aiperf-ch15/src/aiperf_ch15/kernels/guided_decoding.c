// A step of all rows: the largest of the logits whose bit is set in the mask of the row's state, on a CPU. With `jump`
// a row also emits the tokens that are the only legal ones of the states that follow.
#include <math.h>
#include <stdint.h>

void masked_step(const float* logits, const uint32_t* bits, const int16_t* after, const int32_t* forced,
                 int32_t* states, int32_t* counts, int64_t* last, int32_t* out, int64_t rows, int64_t tokens,
                 int64_t words, int64_t steps, int64_t jump) {
  for (int64_t row = 0; row < rows; ++row) {
    if (counts[row] == steps) continue;
    const float* from = logits + row * tokens;
    int64_t state = states[row], token = -1;
    float best = -INFINITY;
    for (int64_t word = 0; word < words; ++word)
      for (uint32_t left = bits[state * words + word]; left; left &= left - 1) {
        const int64_t legal = 32 * word + __builtin_ctz(left);
        if (token < 0 || from[legal] > best) token = legal, best = from[legal];
      }
    do {
      out[row * steps + counts[row]++] = last[row] = token;
      state = after[state * tokens + token];
      token = jump ? forced[state] : -1;
    } while (token >= 0 && counts[row] < steps);
    states[row] = state;
  }
}
