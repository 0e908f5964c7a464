// Rows of tokens grouped by expert, the rows of an expert by the number of the token. A block has TOKENS tokens, and a
// word of bits for each expert and 32 of them: the rank of a token in its expert is a number of bits before its own.
#define WARP 32
#define THREADS 256
#define WARPS (THREADS / WARP)
#define TOKENS 64
#define WORDS (TOKENS / WARP)
#define MOST_EXPERTS 256
#define EACH (MOST_EXPERTS / WARP)  // logits of a lane

typedef unsigned short Half;

struct Taken {
  unsigned words[MOST_EXPERTS][WORDS];

  __device__ void clear(int experts) {
    for (int e = threadIdx.x; e < experts * WORDS; e += THREADS) words[e / WORDS][e % WORDS] = 0;
    __syncthreads();
  }
  __device__ void add(int expert, int token) { atomicOr(&words[expert][token / WARP], 1u << token % WARP); }
  // Tokens of the block before this one that have the expert; all of them, if `token` is TOKENS.
  __device__ int before(int expert, int token) const {
    int count = 0;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const int bits = token - w * WARP;
      if (bits > 0) count += __popc(words[expert][w] & (bits >= WARP ? ~0u : (1u << bits) - 1));
    }
    return count;
  }
};

// counts: [experts, blocks].
__device__ void store_counts(const Taken& taken, int* counts, int experts) {
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += THREADS) counts[e * gridDim.x + blockIdx.x] = taken.before(e, TOKENS);
}

// Counts of routes, [tokens, chosen], that are known.
extern "C" __global__ void __launch_bounds__(THREADS)
    counted(const long long* routes, int* counts, int tokens, int experts, int chosen) {
  __shared__ Taken taken;
  taken.clear(experts);
  const int first = blockIdx.x * TOKENS, here = min(TOKENS, tokens - first);
  for (int i = threadIdx.x; i < here * chosen; i += THREADS)
    taken.add((int)routes[(long long)first * chosen + i], i / chosen);
  store_counts(taken, counts, experts);
}

// Bits that compare as the numbers do.
__device__ __forceinline__ unsigned ordered(float value) {
  const unsigned bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// A warp a token: `chosen` times the largest of the logits that are left, and the counts of what was chosen. 0 is a
// logit that is gone: no number has these bits, but a NaN.
extern "C" __global__ void __launch_bounds__(THREADS)
    chosen_and_counted(const float* logits, long long* routes, int* counts, int tokens, int experts, int chosen) {
  __shared__ Taken taken;
  taken.clear(experts);
  const int lane = threadIdx.x % WARP, first = blockIdx.x * TOKENS, here = min(TOKENS, tokens - first);
  for (int token = threadIdx.x / WARP; token < here; token += WARPS) {
    const float* from = logits + (long long)(first + token) * experts;
    unsigned keys[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) keys[i] = i * WARP + lane < experts ? ordered(from[i * WARP + lane]) : 0;
    for (int choice = 0; choice < chosen; ++choice) {
      unsigned best = 0;
#pragma unroll
      for (int i = 0; i < EACH; ++i) best = max(best, keys[i]);
      best = __reduce_max_sync(~0u, best);
      unsigned expert = MOST_EXPERTS;
#pragma unroll
      for (int i = EACH; i-- > 0;)
        if (keys[i] == best) expert = i * WARP + lane;
      expert = __reduce_min_sync(~0u, expert);  // the first of equal ones
#pragma unroll
      for (int i = 0; i < EACH; ++i)
        if (i * WARP + lane == expert) keys[i] = 0;
      if (lane == 0) {
        routes[(long long)(first + token) * chosen + choice] = expert;
        taken.add(expert, token);
      }
    }
  }
  store_counts(taken, counts, experts);
}

// The place of each choice among all rows. Every block adds up the counts of the blocks before it, and the totals, by
// itself: they are few, and in L2.
extern "C" __global__ void __launch_bounds__(THREADS)
    placed(const long long* routes, const int* counts, int* places, int* sources, int* ends, int tokens, int experts,
           int chosen) {
  __shared__ Taken taken;
  __shared__ int totals[MOST_EXPERTS], begins[MOST_EXPERTS];
  const int lane = threadIdx.x % WARP, blocks = gridDim.x, first = blockIdx.x * TOKENS;
  const int here = min(TOKENS, tokens - first);
  taken.clear(experts);
  for (int i = threadIdx.x; i < here * chosen; i += THREADS)
    taken.add((int)routes[(long long)first * chosen + i], i / chosen);
  for (int e = threadIdx.x / WARP; e < experts; e += WARPS) {
    int total = 0, before = 0;
#pragma unroll 8
    for (int b = lane; b < blocks; b += WARP) {
      const int count = counts[e * blocks + b];
      total += count, before += b < blockIdx.x ? count : 0;
    }
    total = __reduce_add_sync(~0u, total), before = __reduce_add_sync(~0u, before);
    if (lane == 0) totals[e] = total, begins[e] = before;
  }
  __syncthreads();
  if (threadIdx.x < WARP) {
    int sum = 0;  // of the experts before these 32
    for (int e = lane; e - lane < experts; e += WARP) {
      const int own = e < experts ? totals[e] : 0;
      int end = own;
#pragma unroll
      for (int offset = 1; offset < WARP; offset *= 2) {
        const int left = __shfl_up_sync(~0u, end, offset);
        if (lane >= offset) end += left;
      }
      end += sum;
      if (e < experts) {
        begins[e] += end - own;
        if (blockIdx.x == 0) ends[e] = end;
      }
      sum = __shfl_sync(~0u, end, WARP - 1);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < here * chosen; i += THREADS) {
    const long long slot = (long long)first * chosen + i;
    const int expert = (int)routes[slot], place = begins[expert] + taken.before(expert, i / chosen);
    places[slot] = place;
    sources[place] = first + i / chosen;
  }
}

// A block a token: its row is read once, and written to the places of its choices.
template <typename Word>
__global__ void __launch_bounds__(THREADS)
    scattered(const void* x, const int* places, void* rows, int tokens, int chosen, int words) {
  const long long token = blockIdx.x;
  if (token >= tokens) return;
  for (int i = threadIdx.x; i < words; i += THREADS) {
    const Word piece = static_cast<const Word*>(x)[token * words + i];
    for (int choice = 0; choice < chosen; ++choice)
      static_cast<Word*>(rows)[(long long)places[token * chosen + choice] * words + i] = piece;
  }
}
