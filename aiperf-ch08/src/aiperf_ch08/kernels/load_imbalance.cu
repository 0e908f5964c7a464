// y = A x for a sparse A by rows: row r has nonzeros row_starts[r] to row_starts[r + 1], each a value and a column.
// Kernels differ in what a thread, a warp or a block takes: rows, or an equal share of rows and nonzeros.
#define THREADS 256
#define WARPS (THREADS / 32)
#define ITEMS 11  // of a thread; odd, so that the shares of 32 lanes begin in 32 banks
#define TILE (THREADS * ITEMS)
#define GROUP 8  // lanes of a short row

// The sum of one of `lanes` lanes, for the nonzeros from..to of a row.
__device__ __forceinline__ float own_sum(const int* columns, const float* values, const float* x, int from, int to,
                                         int lane, int lanes) {
  float sum = 0;
#pragma unroll 4
  for (int k = from + lane; k < to; k += lanes) sum = fmaf(values[k], x[columns[k]], sum);
  return sum;
}
template <int LANES>
__device__ __forceinline__ float sum_of_lanes(float sum) {
#pragma unroll
  for (int offset = LANES / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  return sum;
}
// A row for each group of lanes; all lanes of a warp come here, those without a row with an empty one.
template <int LANES>
__device__ __forceinline__ void row_of_lanes(const int* row_starts, const int* columns, const float* values,
                                             const float* x, float* out, int row) {
  const int from = row < 0 ? 0 : row_starts[row], to = row < 0 ? 0 : row_starts[row + 1];
  const float sum = sum_of_lanes<LANES>(own_sum(columns, values, x, from, to, threadIdx.x % LANES, LANES));
  if (row >= 0 && threadIdx.x % LANES == 0) out[row] = sum;
}

extern "C" {
__global__ void __launch_bounds__(THREADS) thread_per_row(const int* row_starts, const int* columns,
                                                          const float* values, const float* x, float* out, int rows) {
  const int row = blockIdx.x * THREADS + threadIdx.x;
  if (row < rows) out[row] = own_sum(columns, values, x, row_starts[row], row_starts[row + 1], 0, 1);
}

__global__ void __launch_bounds__(THREADS) warp_per_row(const int* row_starts, const int* columns, const float* values,
                                                        const float* x, float* out, int rows) {
  const int row = blockIdx.x * WARPS + threadIdx.x / 32;
  row_of_lanes<32>(row_starts, columns, values, x, out, row < rows ? row : -1);
}

// `order` has the long rows, a block for each, then the medium ones, a warp for each, and the short ones.
__global__ void __launch_bounds__(THREADS)
    row_bins(const int* row_starts, const int* columns, const float* values, const float* x, const int* order,
             float* out, int rows, int longs, int mediums) {
  __shared__ float parts[WARPS];
  int block = blockIdx.x;
  if (block < longs) {
    const int row = order[block], warp = threadIdx.x / 32;
    const float sum = own_sum(columns, values, x, row_starts[row], row_starts[row + 1], threadIdx.x, THREADS);
    parts[warp] = sum_of_lanes<32>(sum);
    __syncthreads();
    if (threadIdx.x < 32) {
      const float total = sum_of_lanes<WARPS>(parts[threadIdx.x % WARPS]);
      if (threadIdx.x == 0) out[row] = total;
    }
    return;
  }
  block -= longs;
  const int blocks = (mediums + WARPS - 1) / WARPS;
  const bool is_medium = block < blocks;
  const int place = is_medium ? block * WARPS + (int)threadIdx.x / 32
                              : mediums + (block - blocks) * (THREADS / GROUP) + (int)threadIdx.x / GROUP;
  const int row = place < (is_medium ? mediums : rows - longs) ? order[longs + place] : -1;
  if (is_medium) row_of_lanes<32>(row_starts, columns, values, x, out, row);
  else row_of_lanes<GROUP>(row_starts, columns, values, x, out, row);
}
}

// How many of the first `place` items are ends of rows, where nonzeros and ends are merged into one list: the end of a
// row stands behind its last nonzero. `ends[r]` is the end of row r.
__device__ __forceinline__ int ends_before(const int* ends, int rows, int nonzeros, int place) {
  int low = max(place - nonzeros, 0), high = min(place, rows);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] < place - middle) low = middle + 1;
    else high = middle;
  }
  return low;
}

extern "C" {
// The first row of each tile of the merged list, and zeros to which tiles add their parts of rows.
__global__ void __launch_bounds__(THREADS)
    first_rows(const int* row_starts, int* firsts, float* out, int rows, int nonzeros, int tiles) {
  const int threads = gridDim.x * THREADS, thread = blockIdx.x * THREADS + threadIdx.x;
  for (int row = thread; row < rows; row += threads) out[row] = 0;
  for (int tile = thread; tile <= tiles; tile += threads) {
    const int place = (int)min(tile * (long long)TILE, rows + (long long)nonzeros);
    firsts[tile] = ends_before(row_starts + 1, rows, nonzeros, place);
  }
}

// A block has a tile of the list, and each thread ITEMS of it: a product is added to the thread's sum, the end of a row
// writes the sum. What a thread has left of its last row is carried to the next one.
__global__ void __launch_bounds__(THREADS)
    merge_path(const int* row_starts, const int* columns, const float* values, const float* x, const int* firsts,
               float* out, int rows, int nonzeros) {
  __shared__ int ends[TILE];  // and behind them the products
  __shared__ float carried[WARPS];
  __shared__ int last_rows[WARPS];
  const int tile = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_row = firsts[tile], count = firsts[tile + 1] - first_row;
  const int first = (int)(tile * (long long)TILE - first_row);
  const int places = (int)min((long long)TILE, rows + (long long)nonzeros - tile * (long long)TILE);
  const int inside = places - count;  // nonzeros
  float* products = reinterpret_cast<float*>(ends) + count;
  for (int r = threadIdx.x; r < count; r += THREADS) ends[r] = row_starts[first_row + r + 1] - first;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int k = threadIdx.x + i * THREADS;
    if (k < inside) products[k] = values[first + k] * x[columns[first + k]];
  }
  __syncthreads();

  int place = min((int)threadIdx.x * ITEMS, places);
  const int stop = min(place + ITEMS, places), begin = ends_before(ends, count, inside, place);
  int row = begin, k = place - begin;
  float sum = 0, first_sum = 0;
  for (; place < stop; ++place) {
    if (row < count && ends[row] <= k) {
      if (row == begin) first_sum = sum;  // earlier threads may have a part of it
      else out[first_row + row] = sum;
      sum = 0, ++row;
    } else {
      sum += products[k++];
    }
  }

  // The sum of what this thread and those before it have of its last row.
  float scanned = sum;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const float other = __shfl_up_sync(~0u, scanned, offset);
    const int its_row = __shfl_up_sync(~0u, row, offset);
    if (lane >= offset && its_row == row) scanned += other;
  }
  if (lane == 31) carried[warp] = scanned, last_rows[warp] = row;
  const float before = __shfl_up_sync(~0u, scanned, 1);
  const int warp_begin = __shfl_sync(~0u, begin, 0);
  __syncthreads();
  float from_warps = 0;  // of the row in which this warp begins
  for (int w = warp - 1; w >= 0 && last_rows[w] == warp_begin; --w) from_warps += carried[w];
  if (row > begin) {
    const float total = first_sum + (lane ? before : 0) + (begin == warp_begin ? from_warps : 0);
    // Of the tile's rows, only the first may have begun in another.
    if (begin == 0) atomicAdd(out + first_row, total);
    else out[first_row + begin] = total;
  }
  if (threadIdx.x == THREADS - 1 && first_row + row < rows)
    atomicAdd(out + first_row + row, scanned + (row == warp_begin ? from_warps : 0));
}
}
