// A round of a tile by a few blocks, so that many tiles have room beside each other.
#define TILE 32

// out = relu(x w), where x is a, or the mean of a and b. Each block takes a part of the rows, a square at a time.
extern "C" __global__ void __launch_bounds__(TILE* TILE) product(float* out, const float* a, const float* b, const float* w,
                                                                long long rows, long long width) {
  __shared__ float xs[TILE][TILE], ws[TILE][TILE];
  const long long each = (rows + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * each;
  const long long end = begin + each < rows ? begin + each : rows;
  const int i = threadIdx.y, j = threadIdx.x;
  for (long long top = begin; top < end; top += TILE)
    for (long long left = 0; left < width; left += TILE) {
      const long long row = top + i, column = left + j;
      float sum = 0;
      for (long long first = 0; first < width; first += TILE) {
        float x = 0;
        if (row < end && first + j < width) {
          const long long at = row * width + first + j;
          x = b ? 0.5f * (a[at] + b[at]) : a[at];
        }
        xs[i][j] = x;
        ws[i][j] = first + i < width && column < width ? w[(first + i) * width + column] : 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += xs[i][k] * ws[k][j];
        __syncthreads();
      }
      if (row < end && column < width) out[row * width + column] = fmaxf(sum, 0);
    }
}
