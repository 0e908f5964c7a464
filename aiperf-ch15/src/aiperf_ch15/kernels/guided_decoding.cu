// A step of all rows: the largest of the logits whose bit is set in the mask of the row's state. The last block of a row
// emits the token and moves the row to its next state; with `jump` it also emits tokens that are the only legal ones.
#define WARP 32
#define THREADS 256

typedef unsigned short Half;

__device__ __forceinline__ float widen(float word) { return word; }
__device__ __forceinline__ float widen(Half word) { return __uint_as_float((unsigned)word << 16); }

// Bits that compare as the numbers do, of which none is -0. 0 is less than those of every number.
__device__ __forceinline__ unsigned ordered(float value) {
  const unsigned bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

typedef unsigned long long Key;  // a logit, and below it the token, of which the first of equals is the largest

__device__ __forceinline__ Key larger_of_warp(Key key) {
#pragma unroll
  for (int offset = WARP / 2; offset > 0; offset /= 2) key = max(key, __shfl_xor_sync(~0u, key, offset));
  return key;
}

// best and tickets are zero before and after every launch.
template <typename T>
__global__ void __launch_bounds__(THREADS)
    masked_step(const void* logits, const unsigned* bits, const short* after, const int* forced, int* states,
                int* counts, long long* last, int* out, Key* best, int* tickets, int tokens, int words, int steps,
                int jump) {
  __shared__ Key of_warps[THREADS / WARP];
  const int row = blockIdx.y, lane = threadIdx.x % WARP;
  int state = states[row];
  const T* from = static_cast<const T*>(logits) + (long long)row * tokens;
  const unsigned* mask = bits + (long long)state * words;
  Key key = 0;
#pragma unroll 4
  for (int token = blockIdx.x * THREADS + threadIdx.x; token < tokens; token += gridDim.x * THREADS)
    if (mask[token / WARP] >> token % WARP & 1)
      key = max(key, (Key)ordered(widen(from[token]) + 0.0f) << 32 | ~(unsigned)token);
  key = larger_of_warp(key);
  if (lane == 0) of_warps[threadIdx.x / WARP] = key;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < THREADS / WARP; ++w) key = max(key, of_warps[w]);
  atomicMax(best + row, key);
  __threadfence();
  if (atomicAdd(tickets + row, 1) != gridDim.x - 1) return;
  int token = (int)~(unsigned)atomicExch(best + row, 0ull), count = counts[row], emitted = 0;
  tickets[row] = 0;
  if (count == steps) return;
  do {
    out[(long long)row * steps + count++] = emitted = token;
    state = after[(long long)state * tokens + token];
    token = jump ? forced[state] : -1;
  } while (token >= 0 && count < steps);
  states[row] = state, counts[row] = count, last[row] = emitted;
}
