#include "graph_if_else.cuh"

extern "C" {
__global__ void decide(const int* ways, int* state) { next_way(ways, state); }

// A way that somebody has chosen.
__global__ void __launch_bounds__(THREADS)
    chosen(const float* x, float* total, const int* state, int steps, int rounds, long long n) {
  rounds_of(x, total, state[0], steps, rounds, n);
}

// A way that is launched in any case, and returns where it is not the step's.
__global__ void __launch_bounds__(THREADS)
    predicated(const float* x, float* total, const int* state, int way, int steps, int rounds, long long n) {
  if (state[1] == way) rounds_of(x, total, state[0], steps, rounds, n);
}

// Both ways in a kernel, for a step whose number the launch knows.
__global__ void __launch_bounds__(THREADS)
    either(const float* x, float* total, const int* ways, int step, int steps, int few, int many, long long n) {
  rounds_of(x, total, step, steps, ways[step] ? many : few, n);
}
}
