// A step that goes one of two ways: many rounds or few. `state` has the number of the step that runs, and its way.
#pragma once

#define THREADS 256
#define ROUND 0.0078125f  // 1 / 128
#define KEPT 0.96875f     // 31 / 32

// One thread: the way of the next step.
__device__ __forceinline__ int next_way(const int* ways, int* state) {
  const int step = ++state[0];
  return state[1] = ways[step];
}

// An element of a step: rounds on a spring that gets stiffer, from a place of its own in each step, and into a total.
__device__ __forceinline__ void rounds_of(const float* x, float* total, int step, int steps, int rounds, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i >= n) return;
  float place = x[i] * (1 + (float)step / (float)steps), speed = 0;
  for (int round = 0; round < rounds; ++round) {
    speed = fmaf(-ROUND, fmaf(place * place, place, place), speed);
    place = fmaf(ROUND, speed, place);
  }
  total[i] = fmaf(KEPT, total[i], place);
}
