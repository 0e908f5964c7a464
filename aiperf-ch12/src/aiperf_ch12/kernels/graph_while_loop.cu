// The last kernel of an iteration that is the body of a loop in a graph. In a file of its own: a driver that knows no such loops
// cannot load it.
#include "graph_while.cuh"

// Of CUDA's device runtime, which NVRTC has without a header. The first argument is a cudaGraphConditionalHandle.
extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned int value);

// In a graph's loop: and tells the graph. The condition is 1 when the graph is launched.
extern "C" __global__ void decide_and_tell(const double* residuals, double* state, long long* progress, int parts, int most,
                                           unsigned long long condition) {
  decide_block(residuals, state, progress, parts, most);
  if (threadIdx.x == 0) cudaGraphSetConditional(condition, progress[GOES_ON] ? 1 : 0);
}
