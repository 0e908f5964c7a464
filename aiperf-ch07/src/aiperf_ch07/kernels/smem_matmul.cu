// C = A B for n x n floats by rows; what differs is how often an element is fetched, and from where.

#define TILE 32

// A thread makes one element, from a row of A and a column of B in global memory. The lanes of a warp share the row and
// take neighbouring columns: coalesced, and the L1 catches some of what 32 rows of threads ask for again.
extern "C" __global__ void one_output(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                                      int n) {
  const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= n || column >= n) return;
  float total = 0;
  for (int k = 0; k < n; ++k) total = fmaf(a[(long long)row * n + k], b[(long long)k * n + column], total);
  out[(long long)row * n + column] = total;
}

// Element (row, column) of a matrix, or zero beyond its edge, which adds nothing.
__device__ __forceinline__ float inside(const float* __restrict__ m, int row, int column, int n) {
  return row < n && column < n ? m[(long long)row * n + column] : 0.0f;
}

// Four neighbours of a row in one 16-byte load, where rows start at multiples of 16 bytes.
__device__ __forceinline__ float4 four_inside(const float* __restrict__ m, int row, int column, int n) {
  if (n % 4 == 0 && row < n && column + 3 < n) return *reinterpret_cast<const float4*>(m + (long long)row * n + column);
  return make_float4(inside(m, row, column, n), inside(m, row, column + 1, n), inside(m, row, column + 2, n),
                     inside(m, row, column + 3, n));
}

// A block of 32 x 32 threads holds a tile of A and one of B in shared memory, where each element is read 32 times for
// one fetch. Lanes read one word of A together (a broadcast) and neighbouring words of B: no bank is asked twice. The
// compiler reads A four words at once, along k.
extern "C" __global__ void __launch_bounds__(TILE* TILE)
    tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
  float total = 0;
  for (int k0 = 0; k0 < n; k0 += TILE) {
    a_tile[y][x] = inside(a, row, k0 + x, n);
    b_tile[y][x] = inside(b, k0 + y, column, n);
    __syncthreads();  // the tiles are whole
#pragma unroll
    for (int k = 0; k < TILE; ++k) total = fmaf(a_tile[y][k], b_tile[k][x], total);
    __syncthreads();  // nobody reads them any more
  }
  if (row < n && column < n) out[(long long)row * n + column] = total;
}

// Fills both tiles in 16-byte accesses: 512 of them, so with 1024 threads one half takes A and the other B.
__device__ __forceinline__ void fill(float4* tiles, const float* __restrict__ a, const float* __restrict__ b, int k0,
                                     int n, int threads) {
  for (int at = threadIdx.y * TILE + threadIdx.x; at < 2 * TILE * TILE / 4; at += threads) {
    const int y = at / (TILE / 4) % TILE, x = at % (TILE / 4) * 4;
    tiles[at] = at < TILE * TILE / 4 ? four_inside(a, blockIdx.y * TILE + y, k0 + x, n)
                                     : four_inside(b, k0 + y, blockIdx.x * TILE + x, n);
  }
}

// ROWS elements of C a thread, of one column: what is read of B serves them all. The tile's rows are taken ROWS apart
// from each other's, so that a warp still reads one row of A at a time.
template <int ROWS>
__device__ void outputs(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
  __shared__ float4 tiles[2 * TILE * TILE / 4];
  const float4* a_tile = tiles;
  const float* b_tile = reinterpret_cast<const float*>(tiles + TILE * TILE / 4);
  constexpr int STEP = TILE / ROWS;
  const int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x;
  float total[ROWS] = {};
  for (int k0 = 0; k0 < n; k0 += TILE) {
    fill(tiles, a, b, k0, n, TILE * STEP);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; k += 4) {
      float from_b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) from_b[i] = b_tile[(k + i) * TILE + x];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const float4 from_a = a_tile[((y + r * STEP) * TILE + k) / 4];
        total[r] = fmaf(from_a.x, from_b[0], total[r]), total[r] = fmaf(from_a.y, from_b[1], total[r]);
        total[r] = fmaf(from_a.z, from_b[2], total[r]), total[r] = fmaf(from_a.w, from_b[3], total[r]);
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < ROWS; ++r) {
    const int row = blockIdx.y * TILE + y + r * STEP;
    if (row < n && column < n) out[(long long)row * n + column] = total[r];
  }
}
extern "C" __global__ void __launch_bounds__(TILE* TILE)
    wide_fill(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
  outputs<1>(a, b, out, n);
}
extern "C" __global__ void __launch_bounds__(TILE* TILE / 2)
    two_outputs(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
  outputs<2>(a, b, out, n);
}
