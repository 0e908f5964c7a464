// A step on the GPU: layers of products, the norm of the result, and its sum into a total.
#define TILE 32

// Kept by the steps: the sum of squares so far, the factor of the step, and the number of steps that have decided.
struct State {
  float squares, factor;
  int steps;
};

// out = relu(x w), a tile of TILE x TILE a block and an element a thread.
extern "C" __global__ void __launch_bounds__(TILE* TILE)
    product(float* out, const float* x, const float* w, long long rows, long long width) {
  __shared__ float xs[TILE][TILE], ws[TILE][TILE];
  const int i = threadIdx.y, j = threadIdx.x;
  const long long row = blockIdx.y * (long long)TILE + i, column = blockIdx.x * (long long)TILE + j;
  float sum = 0;
  for (long long first = 0; first < width; first += TILE) {
    xs[i][j] = row < rows && first + j < width ? x[row * width + first + j] : 0;
    ws[i][j] = first + i < width && column < width ? w[(first + i) * width + column] : 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; ++k) sum += xs[i][k] * ws[k][j];
    __syncthreads();
  }
  if (row < rows && column < width) out[row * width + column] = fmaxf(sum, 0);
}

// Add the squares of the result to the state's.
extern "C" __global__ void measure(const float* result, float* state, long long count) {
  float sum = 0;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (long long)blockDim.x)
    sum += result[i] * result[i];
  for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(&reinterpret_cast<State*>(state)->squares, sum);
}

// One thread: the factor of this step and the norm that the host will read; the squares begin anew.
extern "C" __global__ void decide(float* state, float* norms, float limit) {
  State* at = reinterpret_cast<State*>(state);
  const float norm = sqrtf(at->squares);
  norms[at->steps++] = norm;
  at->factor = norm > limit ? limit / norm : 1;
  at->squares = 0;
}

extern "C" __global__ void add(float* total, const float* result, const float* state, long long count) {
  const float factor = reinterpret_cast<const State*>(state)->factor;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (long long)blockDim.x)
    total[i] += factor * result[i];
}
