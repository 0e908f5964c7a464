// In a file of its own: a driver that knows no branches in graphs cannot load it.
#include "graph_if_else.cuh"

// Of CUDA's device runtime, which NVRTC has without a header. The first argument is a cudaGraphConditionalHandle.
extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned int value);

extern "C" __global__ void decide_and_tell(const int* ways, int* state, unsigned long long condition) {
  cudaGraphSetConditional(condition, next_way(ways, state));
}
