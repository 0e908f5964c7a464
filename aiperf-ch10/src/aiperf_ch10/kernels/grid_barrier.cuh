// A barrier over the grid, for cooperative launches: all blocks are on the chip together, so that the wait ends.
#pragma once

// `arrived` counts on through all launches, in each of which every block arrives as often. `until` is zero at the launch.
// What threads wrote before it is visible to all threads of the grid behind it, through L1 too: a fence drops what L1 holds.
__device__ __forceinline__ void grid_sync(unsigned long long* arrived, unsigned long long& until) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    if (until) {
      atomicAdd(arrived, 1ull);
      until += gridDim.x;
    } else {  // no block can be a barrier ahead of this one
      until = (atomicAdd(arrived, 1ull) / gridDim.x + 1) * gridDim.x;
    }
    while (*(volatile unsigned long long*)arrived < until) {
    }
    __threadfence();
  }
  __syncthreads();
}
