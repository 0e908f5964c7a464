// The mean of each segment of x; `ends` has the end of each, where the next one begins. Kernels differ in what a block or a
// warp takes: a segment, or an equal share of segments and elements.
#define THREADS 256
#define WARPS (THREADS / 32)
#define SHARE 4096  // elements and ends of segments of a warp

__device__ __forceinline__ float warp_sum(float total) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  return total;
}

// The sum of x[from..to), as seen by one of `lanes` lanes: neighbours read neighbours.
__device__ __forceinline__ float own_sum(const float* x, int from, int to, int lane, int lanes) {
  float sums[4] = {0, 0, 0, 0};
  int i = from + lane;
  for (; i < to - 7 * lanes; i += 8 * lanes) {
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = __ldcs(x + i + k * lanes);
#pragma unroll
    for (int k = 0; k < 8; ++k) sums[k % 4] += v[k];
  }
  for (; i < to; i += lanes) sums[0] += __ldcs(x + i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

__device__ __forceinline__ void segment_of_block(const float* x, const int* ends, float* out, int segment) {
  __shared__ float parts[WARPS];
  const int from = segment ? ends[segment - 1] : 0, to = ends[segment];
  const float total = warp_sum(own_sum(x, from, to, threadIdx.x, THREADS));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int warp = 0; warp < WARPS; ++warp) sum += parts[warp];
    out[segment] = sum / max(to - from, 1);
  }
  __syncthreads();  // a block of the queue uses them again
}

extern "C" __global__ void __launch_bounds__(THREADS) block_per_segment(const float* x, const int* ends, float* out) {
  segment_of_block(x, ends, out, blockIdx.x);
}

// Blocks take segments in a given order, as long as there are any.
extern "C" __global__ void __launch_bounds__(THREADS)
    queue(const float* x, const int* ends, const int* order, float* out, int* next, int segments) {
  __shared__ int taken;
  for (;;) {
    if (threadIdx.x == 0) taken = atomicAdd(next, 1);
    __syncthreads();
    const int mine = taken;
    if (mine >= segments) return;
    segment_of_block(x, ends, out, order[mine]);
  }
}

// How many of the first `place` things of the list are ends of segments, where elements and ends are merged: the end of a
// segment stands behind its last element.
__device__ __forceinline__ int ends_before(const int* ends, int segments, int elements, int place) {
  int low = max(place - elements, 0), high = min(place, segments);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] <= place - middle - 1) low = middle + 1;
    else high = middle;
  }
  return low;
}

// A warp takes SHARE things of the merged list. Segments that end in it are written; what is left of the last one is carried.
extern "C" __global__ void __launch_bounds__(THREADS)
    equal_shares(const float* x, const int* ends, float* out, int* owner, float* carry, int segments, int elements,
                 int shares) {
  const int share = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (share >= shares) return;
  // lane 0 searches for the begin, lane 1 for the end
  const int place = (int)min((share + (lane & 1)) * (long long)SHARE, (long long)segments + elements);
  const int found = ends_before(ends, segments, elements, place);
  int segment = __shfl_sync(~0u, found, 0), at = __shfl_sync(~0u, place - found, 0);
  const int last = __shfl_sync(~0u, found, 1), stop = __shfl_sync(~0u, place - found, 1);
  for (; segment < last; ++segment) {
    const int to = ends[segment];
    const float total = warp_sum(own_sum(x, at, to, lane, 32));
    if (lane == 0) out[segment] = total / max(to - (segment ? ends[segment - 1] : 0), 1);
    at = to;
  }
  const float rest = warp_sum(own_sum(x, at, stop, lane, 32));
  if (lane == 0) owner[share] = segment, carry[share] = rest;
}

// Carries of a segment stand side by side; the warp of the first of them adds them all to the segment's mean.
extern "C" __global__ void __launch_bounds__(THREADS)
    add_carries(const int* ends, float* out, const int* owner, const float* carry, int segments, int shares) {
  const int share = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (share >= shares) return;
  const int segment = owner[share];
  if (segment >= segments || (share && owner[share - 1] == segment)) return;
  float total = 0;
  for (int i = share + lane; i < shares && owner[i] == segment; i += 32) total += carry[i];
  total = warp_sum(total);
  if (lane == 0) out[segment] += total / max(ends[segment] - (segment ? ends[segment - 1] : 0), 1);
}
