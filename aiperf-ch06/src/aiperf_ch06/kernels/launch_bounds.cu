// out[x][y][row] = the sum over g of a[index[g][row]][x] * b[index[g][row]][y], for vectors of eight values. Each kernel
// adds in the order of g, so that all have the same results.
#define WIDTH 8

// The sums of a row with COLUMNS values of each vector of b, from `column` on. A vector is a sector of 32 bytes. The
// loop is not unrolled: what waits for memory is as much as there are threads.
template <int COLUMNS>
__device__ __forceinline__ void outer_products(const float4* __restrict__ a, const float4* __restrict__ b,
                                               const int* __restrict__ index, float* __restrict__ out, int rows,
                                               int gathered, int row, int column) {
  if (row >= rows) return;
  float sums[WIDTH][COLUMNS] = {};
#pragma unroll 1
  for (int g = 0; g < gathered; ++g) {
    const long long at = 2LL * index[(long long)g * rows + row];
    float u[WIDTH], v[COLUMNS];
#pragma unroll
    for (int k = 0; k < WIDTH / 4; ++k) {
      const float4 four = a[at + k];
      u[4 * k] = four.x, u[4 * k + 1] = four.y, u[4 * k + 2] = four.z, u[4 * k + 3] = four.w;
    }
#pragma unroll
    for (int k = 0; k < COLUMNS / 4; ++k) {
      const float4 four = b[at + column / 4 + k];
      v[4 * k] = four.x, v[4 * k + 1] = four.y, v[4 * k + 2] = four.z, v[4 * k + 3] = four.w;
    }
#pragma unroll
    for (int x = 0; x < WIDTH; ++x)
#pragma unroll
      for (int y = 0; y < COLUMNS; ++y) sums[x][y] = fmaf(u[x], v[y], sums[x][y]);
  }
#pragma unroll
  for (int x = 0; x < WIDTH; ++x)
#pragma unroll
    for (int y = 0; y < COLUMNS; ++y) out[(long long)(x * WIDTH + column + y) * rows + row] = sums[x][y];
}

extern "C" __global__ void unbounded(const float4* a, const float4* b, const int* index, float* out, int rows,
                                     int gathered) {
  outer_products<WIDTH>(a, b, index, out, rows, gathered, blockIdx.x * blockDim.x + threadIdx.x, 0);
}

extern "C" __global__ void __launch_bounds__(256, 3)
    three_blocks(const float4* a, const float4* b, const int* index, float* out, int rows, int gathered) {
  outer_products<WIDTH>(a, b, index, out, rows, gathered, blockIdx.x * blockDim.x + threadIdx.x, 0);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    four_blocks(const float4* a, const float4* b, const int* index, float* out, int rows, int gathered) {
  outer_products<WIDTH>(a, b, index, out, rows, gathered, blockIdx.x * blockDim.x + threadIdx.x, 0);
}

// Lanes 2 r and 2 r + 1 have the first and the second half of the columns of a row.
extern "C" __global__ void two_lanes(const float4* a, const float4* b, const int* index, float* out, int rows,
                                     int gathered) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  outer_products<WIDTH / 2>(a, b, index, out, rows, gathered, thread / 2, thread % 2 * (WIDTH / 2));
}
