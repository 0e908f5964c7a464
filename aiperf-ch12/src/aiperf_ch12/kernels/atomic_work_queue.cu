// Paths of particles, each with a number of time steps of its own. Kernels differ in how lanes come to their particles.
#define STEP 0.0078125f  // 1 / 128
#define GRAIN 16  // steps between two looks at the end; all lives are multiples of it
#define THREADS 256
#define CHUNK 64  // particles that a warp takes at once
#define ALL 0xffffffffu

// Velocity and place of a particle on a spring that gets stiffer: 4 instructions a step, each waiting for the one before.
__device__ __forceinline__ void advance(float& place, float& speed) {
#pragma unroll
  for (int step = 0; step < GRAIN; ++step) {
    speed = fmaf(-STEP, fmaf(place * place, place, place), speed);
    place = fmaf(STEP, speed, place);
  }
}

// A lane has every gridDim.x * THREADS-th particle; lanes of a warp begin their next ones together.
extern "C" __global__ void __launch_bounds__(THREADS) by_stride(const float* x, const int* life, float* out, int n) {
  for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < n; i += gridDim.x * (long long)THREADS) {
    float place = x[i], speed = 0;
    for (int left = life[i]; left > 0; left -= GRAIN) advance(place, speed);
    out[i] = place;
  }
}

// A lane that is done takes the next particle of all, by an atomic of its own.
extern "C" __global__ void __launch_bounds__(THREADS)
    queue(const float* x, const int* life, float* out, unsigned int* next, int n) {
  unsigned int i = atomicAdd(next, 1u);
  float place = 0, speed = 0;
  int left = 0;
  if (i < n) place = x[i], left = life[i];
  while (i < n) {
    advance(place, speed);
    left -= GRAIN;
    if (left <= 0) {
      out[i] = place;
      i = atomicAdd(next, 1u);
      if (i < n) place = x[i], speed = 0, left = life[i];
    }
  }
}

// A warp takes CHUNK particles by one atomic, and its lanes share them out by a vote. With `order`, those are places in a
// list of particles.
template <bool ORDERED>
__global__ void __launch_bounds__(THREADS)
    from_chunks(const float* x, const int* life, const int* order, float* out, unsigned int* next, int n) {
  const unsigned int lane = threadIdx.x % 32, below = (1u << lane) - 1;
  int at = 0, end = 0, i = 0, left = 0;  // of the warp: the chunk from `at` to `end`; of a lane: a particle, its steps
  float place = 0, speed = 0;
  bool more = true;
  for (;;) {
    const unsigned int empty = __ballot_sync(ALL, left <= 0);
    if (empty && more) {
      if (at == end) {
        unsigned int taken = 0;
        if (lane == 0) taken = atomicAdd(next, (unsigned)CHUNK);
        taken = __shfl_sync(ALL, taken, 0);
        at = taken < n ? (int)taken : n, end = at < n - CHUNK ? at + CHUNK : n;
        more = at < end;
      }
      const int mine = at + __popc(empty & below);
      if (left <= 0 && mine < end) {
        i = ORDERED ? order[mine] : mine;
        place = x[i], speed = 0, left = life[i];
      }
      at = min(at + __popc(empty), end);
      continue;
    }
    if (empty == ALL) return;
    if (left > 0) {
      advance(place, speed);
      left -= GRAIN;
      if (left <= 0) out[i] = place;
    }
  }
}
