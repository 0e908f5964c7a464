// b = middle - a, by an odd number of reflections x -> middle - x: in `rounds` rounds they come in pairs and cancel, and one
// is left for the end. sign is -1, which the compiler does not know; nor, then, that a pair changes nothing.
#define PAIRS 16

extern "C" __global__ void reflect(const float* __restrict__ a, float* __restrict__ b, int n, int rounds, float sign,
                                   float middle) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i];
  // Every multiply-add waits for the one before it; the other warps of the multiprocessor fill the gaps.
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < 2 * PAIRS; ++step) x = fmaf(sign, x, middle);
  }
  b[i] = fmaf(sign, x, middle);
}
