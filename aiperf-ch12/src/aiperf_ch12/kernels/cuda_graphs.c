// The chain on a processor: recorded calls that one call replays, and one loop.
#include <math.h>
#include <stdint.h>

typedef void (*stage)(float* x, float* total, const float* start, const float* drive, float weight, int64_t n);

static void begin(float* x, float* total, const float* start, const float* drive, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = start[i], total[i] = 0;
}

static void push(float* x, float* total, const float* start, const float* drive, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += weight * drive[i];
}

static void wave(float* x, float* total, const float* start, const float* drive, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = sinf(x[i]);
}

static void grow(float* x, float* total, const float* start, const float* drive, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= 0.75f;
}

static void squash(float* x, float* total, const float* start, const float* drive, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = tanhf(x[i]);
}

static void pull(float* x, float* total, const float* start, const float* drive, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] -= 0.5f * drive[i];
}

static void add(float* x, float* total, const float* start, const float* drive, float weight, int64_t n) {
  for (int64_t i = 0; i < n; ++i) total[i] += x[i];
}

// A list of calls: which stage, and the number that it is given.
void replay(const int64_t* stages, const float* weights, int64_t count, float* x, float* out, const float* start,
            const float* drive, int64_t n) {
  static const stage table[] = {begin, push, wave, grow, squash, pull, add};
  for (int64_t call = 0; call < count; ++call) table[stages[call]](x, out, start, drive, weights[call], n);
}

// So many elements at a time: a processor goes on with the next while it waits for the sine of one.
#define WIDTH 16

void whole_chain(float* restrict out, const float* restrict start, const float* restrict drive, const float* restrict weights,
                 int64_t steps, int64_t n) {
  for (int64_t first = 0; first < n; first += WIDTH) {
    int64_t width = n - first < WIDTH ? n - first : WIDTH;
    float x[WIDTH], sum[WIDTH] = {0};
    for (int64_t i = 0; i < width; ++i) x[i] = start[first + i];
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t i = 0; i < width; ++i) {
        float d = drive[first + i];
        x[i] = tanhf(0.75f * sinf(x[i] + weights[step] * d)) - 0.5f * d;
        sum[i] += x[i];
      }
    for (int64_t i = 0; i < width; ++i) out[first + i] = sum[i];
  }
}
