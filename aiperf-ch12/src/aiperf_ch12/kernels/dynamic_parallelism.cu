// The integral of a sum of narrow peaks over each of regions x regions squares. A family is a square whose four quarters are to
// be looked at by a warp: a quarter is added, or is a family itself where two rules disagree about it.
#include <cstdint>

#define THREADS 256
#define POINTS 16
#define PARTS (POINTS + 16)  // of a quarter: points of a rule of 4 x 4, and of a rule of 2 x 2 in each of its quarters

// Places and weights of Gauss's rules with four and two points on [0, 1].
__constant__ float PLACE4[4] = {0.069431844f, 0.330009478f, 0.669990522f, 0.930568156f};
__constant__ float WEIGHT4[4] = {0.173927423f, 0.326072577f, 0.326072577f, 0.173927423f};
__constant__ float PLACE2[2] = {0.211324865f, 0.788675135f};

// Peaks of one width, whose integral over the plane is their height: x of all of them, then y.
struct Peaks {
  const float *centres, *heights;
  int count;
  float narrow;  // 1 / width
  __device__ __forceinline__ Peaks(const float* centres, const float* heights, int count, int log2_narrow)
      : centres(centres), heights(heights), count(count), narrow(ldexpf(1.0f, log2_narrow)) {}
  __device__ __forceinline__ float at(float px, float py) const {
    float sum = 0;
    for (int p = 0; p < count; ++p) {
      const float u = (px - centres[p]) * narrow, v = (py - centres[count + p]) * narrow;
      sum += __fdividef(heights[p], fmaf(u, u, 1.0f) * fmaf(v, v, 1.0f));
    }
    return sum * (narrow * narrow * 0.101321184f);  // 1 / pi^2
  }
};

// A square of level 0 is a region; one of level l is a 2^l-th of it on each side. 0 is no square.
__device__ __forceinline__ long long coded(int level, int x, int y) {
  return ((long long)level << 56 | (long long)x << 28 | y) + 1;
}

// Looks at the quarters of a family. All lanes return which of them are families, as bits, and their number; `sum` has the
// integral over the others, and `region` where that belongs.
struct Looked {
  int level, x, y, region, which = 0, count = 0;
  float sum = 0;
  // Puts the codes of those that are families in a list, as far as it has room.
  __device__ __forceinline__ void put(volatile long long* list, int to, int room) const {
    for (int quarter = 0; quarter < 4; ++quarter)
      if (which >> quarter & 1 && to < room) list[to++] = coded(level + 1, 2 * x + quarter / 2, 2 * y + quarter % 2);
  }
};
__device__ __forceinline__ Looked looked_at(long long code, const Peaks& peaks, int regions, int deepest, float allowed) {
  Looked found;
  const int level = (int)((code - 1) >> 56), x = (int)((code - 1) >> 28 & 0xfffffff), y = (int)((code - 1) & 0xfffffff);
  const int lane = threadIdx.x % 32, part = lane % POINTS;
  const float side = 1.0f / ((float)regions * (float)(2 << level));
  found.level = level, found.x = x, found.y = y, found.region = (x >> level) * regions + (y >> level);
  float px, py, weight;
  if (lane < POINTS) {
    px = PLACE4[part / 4], py = PLACE4[part % 4], weight = WEIGHT4[part / 4] * WEIGHT4[part % 4];
  } else {
    px = 0.5f * (part / 8 + PLACE2[part / 4 % 2]), py = 0.5f * (part / 2 % 2 + PLACE2[part % 2]), weight = 1.0f / 16;
  }
  for (int quarter = 0; quarter < 4; ++quarter) {
    const int qx = 2 * x + quarter / 2, qy = 2 * y + quarter % 2;
    float value = weight * peaks.at((qx + px) * side, (qy + py) * side);
#pragma unroll
    for (int offset = POINTS / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    const float other = __shfl_xor_sync(~0u, value, POINTS), exact = lane < POINTS ? value : other;
    if (level + 1 < deepest && fabsf(value - other) * side * side > allowed)
      found.which |= 1 << quarter, ++found.count;
    else
      found.sum += exact * side * side;
  }
  return found;
}

// The finest squares everywhere, by a block for each region, whose threads add up alone.
extern "C" __global__ void __launch_bounds__(THREADS)
    flat(float* out, const float* centres, const float* heights, int count, int log2_narrow, int regions, int deepest) {
  __shared__ float parts[THREADS / 32];
  const Peaks peaks(centres, heights, count, log2_narrow);
  const int across = 1 << deepest, left = blockIdx.x / regions * across, low = blockIdx.x % regions * across;
  const float side = 1.0f / ((float)regions * (float)across);
  float sum = 0;
  for (int square = threadIdx.x; square < across * across; square += THREADS)
    for (int part = 0; part < POINTS; ++part) {
      const float px = (left + square / across + PLACE4[part / 4]) * side;
      const float py = (low + square % across + PLACE4[part % 4]) * side;
      sum = fmaf(WEIGHT4[part / 4] * WEIGHT4[part % 4], peaks.at(px, py), sum);
    }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (int part = 0; part < THREADS / 32; ++part) total += parts[part];
    out[blockIdx.x] = total * side * side;
  }
}

// The families of a level, and those that they leave for the next, which stand behind them in `families`. `counts[l]` is how
// many level l has.
extern "C" __global__ void __launch_bounds__(THREADS)
    level(float* out, long long* families, int* counts, const float* centres, const float* heights, int count,
          int log2_narrow, int regions, int deepest, int digits, int number, int room) {
  const Peaks peaks(centres, heights, count, log2_narrow);
  int first = 0;
  for (int before = 0; before < number; ++before) first += counts[before];
  const int end = first + counts[number], stride = gridDim.x * (blockDim.x / 32);
  for (int at = first + (blockIdx.x * blockDim.x + threadIdx.x) / 32; at < end; at += stride) {
    const Looked found = looked_at(families[at], peaks, regions, deepest, ldexpf(1.0f, -digits));
    if (threadIdx.x % 32) continue;
    if (found.sum != 0) atomicAdd(out + found.region, found.sum);
    if (!found.count) continue;
    found.put(families, end + atomicAdd(counts + number + 1, found.count), room);
  }
}

// All families, by warps that stay: a warp takes the next one when it is there. `state` has how many are taken, put and not
// yet done.
extern "C" __global__ void __launch_bounds__(THREADS)
    queue(float* out, long long* families, int* state, const float* centres, const float* heights, int count,
          int log2_narrow, int regions, int deepest, int digits, int room) {
  const Peaks peaks(centres, heights, count, log2_narrow);
  const int lane = threadIdx.x % 32;
  for (;;) {
    long long code = 0;
    if (lane == 0) {
      const int ticket = atomicAdd(state, 1);
      while (*(volatile int*)(state + 2) > 0) {
        if (ticket < room && (code = *(volatile long long*)(families + ticket)) != 0) break;
      }
    }
    code = __shfl_sync(~0u, code, 0);
    if (code == 0) return;
    const Looked found = looked_at(code, peaks, regions, deepest, ldexpf(1.0f, -digits));
    if (lane) continue;
    if (found.sum != 0) atomicAdd(out + found.region, found.sum);
    // What is put counts before it is there, so that nobody sees the end too soon.
    atomicAdd(state + 2, found.count - 1);
    if (!found.count) continue;
    found.put(families, atomicAdd(state + 1, found.count), room);
  }
}
