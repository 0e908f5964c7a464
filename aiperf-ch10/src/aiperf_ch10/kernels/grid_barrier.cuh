// A barrier over the grid, for cooperative launches: all blocks are on the chip together, so that the wait ends.
#pragma once

// `arrived` is zero at the launch, and `round` counts the barriers of this block. What threads wrote before it is visible
// to all threads of the grid behind it, through L1 too: a fence drops what L1 holds.
__device__ __forceinline__ void grid_sync(unsigned int* arrived, unsigned int& round) {
  __syncthreads();
  ++round;
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*(volatile unsigned int*)arrived < round * gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
}
