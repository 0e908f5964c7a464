// y = tanh(A x), A of float (4) or of bfloat16 (2, of which the bits are widened). Kernels differ in which elements the
// lanes of a warp read together. Loads of A have the same hint, that it is read once, in all kernels but the baseline's:
// a thread that has a row comes back to its line.
#define WARP 32
#define THREADS 256
#define WARPS (THREADS / WARP)
#define ROWS 4       // of a warp in `four_rows`
#define PART 16384   // columns of a block in `split_rows`

typedef unsigned short Half;

__device__ __forceinline__ float widen(float word) { return word; }
__device__ __forceinline__ float widen(Half word) { return __uint_as_float((unsigned)word << 16); }

// 32 lanes in 32 rows: one load of a warp opens 32 lines, of each of which it uses one word.
template <typename T>
__global__ void __launch_bounds__(THREADS) thread_per_row(const void* a, const float* x, float* out, int rows, int columns) {
  const long long row = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (row >= rows) return;
  const T* from = static_cast<const T*>(a) + row * columns;
  float total = 0;
#pragma unroll 8
  for (int j = 0; j < columns; ++j) total = fmaf(widen(from[j]), x[j], total);
  out[row] = tanhf(total);
}

// The product of a part of R rows with x, as seen by one of `threads` threads: every `threads`-th element from `first`
// on. Neighbouring threads read neighbours. The rows are `stride` elements apart.
template <typename T, int R>
__device__ __forceinline__ void own_sums(float (&totals)[R], const T* from, long long stride, const float* x,
                                         int columns, int first, int threads) {
#pragma unroll 8
  for (int j = first; j < columns; j += threads) {
#pragma unroll
    for (int r = 0; r < R; ++r) totals[r] = fmaf(widen(__ldcs(from + r * stride + j)), x[j], totals[r]);
  }
}

// The same with 16 bytes a load: four words, or eight halves. Rows that do not all begin at a multiple of 16 bytes are
// read by words.
template <typename T, int R>
__device__ __forceinline__ void own_sums_wide(float (&totals)[R], const T* from, long long stride, const float* x,
                                              int columns, int first, int threads) {
  constexpr int V = 16 / sizeof(T);
  union Piece {
    uint4 all;
    T words[V];
  };
  if (reinterpret_cast<unsigned long long>(from) % 16 || stride % V || reinterpret_cast<unsigned long long>(x) % 16) {
    own_sums(totals, from, stride, x, columns, first, threads);
    return;
  }
#pragma unroll 4
  for (int j = first * V; j < columns / V * V; j += threads * V) {
    Piece piece[R];
#pragma unroll
    for (int r = 0; r < R; ++r) piece[r].all = __ldcs(reinterpret_cast<const uint4*>(from + r * stride + j));
#pragma unroll
    for (int v = 0; v < V; v += 4) {
      const float4 four = *reinterpret_cast<const float4*>(x + j + v);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        totals[r] = fmaf(widen(piece[r].words[v]), four.x, totals[r]);
        totals[r] = fmaf(widen(piece[r].words[v + 1]), four.y, totals[r]);
        totals[r] = fmaf(widen(piece[r].words[v + 2]), four.z, totals[r]);
        totals[r] = fmaf(widen(piece[r].words[v + 3]), four.w, totals[r]);
      }
    }
  }
  const int rest = columns / V * V;
  own_sums(totals, from + rest, stride, x + rest, columns - rest, first, threads);
}

// Every lane gets the sum over the warp.
__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  return total;
}

// The sum over the block, in thread 0.
__device__ __forceinline__ float block_sum(float total) {
  __shared__ float totals[WARPS];
  total = warp_sum(total);
  if (threadIdx.x % WARP == 0) totals[threadIdx.x / WARP] = total;
  __syncthreads();
  return threadIdx.x < WARP ? warp_sum(threadIdx.x < WARPS ? totals[threadIdx.x] : 0.0f) : 0.0f;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__(THREADS) warp_per_row(const void* a, const float* x, float* out, int rows, int columns) {
  const long long row = blockIdx.x * (long long)WARPS + threadIdx.x / WARP;
  if (row >= rows) return;
  const T* from = static_cast<const T*>(a) + row * columns;
  float total[1] = {0};
  if (WIDE) own_sums_wide(total, from, columns, x, columns, threadIdx.x % WARP, WARP);
  else own_sums(total, from, columns, x, columns, threadIdx.x % WARP, WARP);
  total[0] = warp_sum(total[0]);
  if (threadIdx.x % WARP == 0) out[row] = tanhf(total[0]);
}

// A warp has four rows, for which it loads x once. The last rows, fewer than four, are taken one by one.
template <typename T>
__global__ void __launch_bounds__(THREADS) four_rows(const void* a, const float* x, float* out, int rows, int columns) {
  const long long row = (blockIdx.x * (long long)WARPS + threadIdx.x / WARP) * ROWS;
  const int lane = threadIdx.x % WARP;
  const T* from = static_cast<const T*>(a) + row * columns;
  if (row + ROWS <= rows) {
    float totals[ROWS] = {0};
    own_sums_wide(totals, from, columns, x, columns, lane, WARP);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float total = warp_sum(totals[r]);
      if (lane == 0) out[row + r] = tanhf(total);
    }
  } else {
    for (int r = 0; row + r < rows; ++r) {
      float total[1] = {0};
      own_sums_wide(total, from + (long long)r * columns, columns, x, columns, lane, WARP);
      total[0] = warp_sum(total[0]);
      if (lane == 0) out[row + r] = tanhf(total[0]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) block_per_row(const void* a, const float* x, float* out, int columns) {
  float total[1] = {0};
  own_sums_wide(total, static_cast<const T*>(a) + blockIdx.x * (long long)columns, columns, x, columns, threadIdx.x,
                THREADS);
  total[0] = block_sum(total[0]);
  if (threadIdx.x == 0) out[blockIdx.x] = tanhf(total[0]);
}

// Block (r, p) has part p of row r. `finished` adds up the parts.
template <typename T>
__global__ void __launch_bounds__(THREADS) part_of_row(const void* a, const float* x, float* sums, int columns) {
  const int first = blockIdx.y * PART, count = min(PART, columns - first);
  float total[1] = {0};
  own_sums_wide(total, static_cast<const T*>(a) + blockIdx.x * (long long)columns + first, columns, x + first, count,
                threadIdx.x, THREADS);
  total[0] = block_sum(total[0]);
  if (threadIdx.x == 0) sums[blockIdx.x * gridDim.y + blockIdx.y] = total[0];
}

extern "C" __global__ void __launch_bounds__(THREADS) finished(const float* sums, float* out, int rows, int parts) {
  const int row = blockIdx.x * WARPS + threadIdx.x / WARP;
  if (row >= rows) return;
  float total = 0;
  for (int p = threadIdx.x % WARP; p < parts; p += WARP) total += sums[(long long)row * parts + p];
  total = warp_sum(total);
  if (threadIdx.x % WARP == 0) out[row] = tanhf(total);
}
