// How many steps each pixel of a square view stays near zero under z = z z + c, at most `limit`: the Mandelbrot set has those
// that stay. `view` is the left and the upper end, and from pixel to pixel. Operations are rounded one by one, as a reference's are.
#define THREADS 256
#define TOP 512  // the side of the first rectangles
#define LEAF 32  // the side of those that are not split

__device__ __forceinline__ int steps_at(const float* view, int column, int row, int limit) {
  const float re = __fadd_rn(view[0], __fmul_rn((float)column, view[2]));
  const float im = __fadd_rn(view[1], __fmul_rn((float)row, view[2]));
  float x = 0, y = 0;
  int count = 0;
  for (; count < limit; ++count) {
    const float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
    if (!(__fadd_rn(xx, yy) <= 4)) break;
    y = __fadd_rn(__fmul_rn(__fmul_rn(x, y), 2), im);
    x = __fadd_rn(__fsub_rn(xx, yy), re);
  }
  return count;
}

extern "C" __global__ void __launch_bounds__(THREADS) flat(const float* view, short* out, int n, int limit) {
  const int column = blockIdx.x * 32 + threadIdx.x % 32, row = blockIdx.y * (THREADS / 32) + threadIdx.x / 32;
  if (column < n && row < n) out[row * (long long)n + column] = (short)steps_at(view, column, row, limit);
}

// A rectangle: one more than its depth, row and column among those of its depth, so that none is 0.
struct Part {
  int depth, row, column;
};
__device__ __forceinline__ unsigned packed(Part part) { return 1u + (part.depth << 28 | part.row << 14 | part.column); }
__device__ __forceinline__ Part unpacked(unsigned word) {
  const int all = (int)(word - 1);
  return {all >> 28, all >> 14 & 0x3fff, all & 0x3fff};
}

// A block's work on a part. The set has no holes: if its whole edge is in the set, so is the part. Returns whether the part is
// still to be split, for all threads.
__device__ __forceinline__ bool left_to_split(Part part, const float* view, short* out, int n, int limit) {
  const int side = TOP >> part.depth, left = part.column * side, top = part.row * side;
  const int width = min(side, n - left), height = min(side, n - top), edge = 2 * (width + height);
  bool inside = true;
  for (int i = threadIdx.x; i < edge; i += THREADS) {
    const int along = i < 2 * width ? i % width : (i - 2 * width) % height;
    const int column = i < 2 * width ? along : i - 2 * width < height ? 0 : width - 1;
    const int row = i >= 2 * width ? along : i < width ? 0 : height - 1;
    const int count = steps_at(view, left + column, top + row, limit);
    out[(top + row) * (long long)n + left + column] = (short)count;
    inside = inside && count == limit;
  }
  inside = __syncthreads_and(inside);
  if (!inside && side > LEAF) return true;
  const int columns = width - 2, rows = height - 2;
  if (columns > 0 && rows > 0)
    for (int i = threadIdx.x; i < columns * rows; i += THREADS) {
      const int column = left + 1 + i % columns, row = top + 1 + i / columns;
      out[row * (long long)n + column] = (short)(inside ? limit : steps_at(view, column, row, limit));
    }
  return false;
}

// The quarters of a part that are within the view, in `parts`; returns their number.
__device__ __forceinline__ int quarters(Part part, unsigned (&parts)[4], int n) {
  const int half = TOP >> (part.depth + 1);
  int count = 0;
  for (int k = 0; k < 4; ++k) {
    const Part quarter = {part.depth + 1, 2 * part.row + k / 2, 2 * part.column + k % 2};
    if (quarter.row * half < n && quarter.column * half < n) parts[count++] = packed(quarter);
  }
  return count;
}

extern "C" {
// The first list, of all parts of the first depth. Counts of other lists are 0.
__global__ void first_parts(unsigned* list, int* counts, int across) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i < across * across) list[i] = packed({0, i / across, i % across});
  if (i == 0) counts[0] = across * across;
}

// The parts of a depth; those to be split give the list of the next depth. How many there are, the GPU alone knows.
__global__ void __launch_bounds__(THREADS)
    level(const float* view, short* out, const unsigned* list, const int* count, unsigned* next, int* next_count, int n,
          int limit) {
  for (int i = blockIdx.x; i < *count; i += gridDim.x) {
    const Part part = unpacked(list[i]);
    if (!left_to_split(part, view, out, n, limit) || threadIdx.x) continue;
    unsigned parts[4];
    const int found = quarters(part, parts, n), at = atomicAdd(next_count, found);
    for (int k = 0; k < found; ++k) next[at + k] = parts[k];
  }
}

// All depths, from a list to which parts are added: `state` has the next place to take, the next place to fill, and how many
// parts are not done. Places are taken in order and used once; a part is there when its word is not 0.
__global__ void __launch_bounds__(THREADS)
    queue(const float* view, short* out, volatile unsigned* list, int* state, int room, int n, int limit) {
  __shared__ unsigned word;
  for (;;) {
    if (threadIdx.x == 0) {
      const int place = atomicAdd(&state[0], 1);
      do word = place < room ? list[place] : 0;
      while (!word && *(volatile int*)&state[2] > 0);
    }
    __syncthreads();
    if (!word) return;  // all are done: nobody adds any more
    const Part part = unpacked(word);
    const bool split = left_to_split(part, view, out, n, limit);
    __syncthreads();  // the word is read
    if (threadIdx.x) continue;
    if (split) {
      unsigned parts[4];
      const int found = quarters(part, parts, n);
      atomicAdd(&state[2], found);
      __threadfence();  // they count before any of them can be done
      const int at = atomicAdd(&state[1], found);
      for (int k = 0; k < found; ++k) list[at + k] = parts[k];
    }
    atomicSub(&state[2], 1);
  }
}
}
