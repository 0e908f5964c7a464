// out[i] = the sum of table[index[8 i]] to table[index[8 i + 7]]: a stream of indices, each used once, and a table that
// would fit in L2, if the stream did not pass through it too. Only what is said to the caches differs.
#define LOOKUPS 8

__device__ __forceinline__ unsigned long long policy_evict_first() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ unsigned long long policy_evict_last() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

enum Hint { NONE, PAST_L1, EVICT_FIRST };

// Four indices of the stream.
template <Hint HINT>
__device__ __forceinline__ int4 load_stream(const int4* p, unsigned long long policy) {
  int4 v;
  if (HINT == EVICT_FIRST)
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.s32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p), "l"(policy));
  else if (HINT == PAST_L1)
    asm volatile("ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
  else
    v = *p;
  return v;
}

template <Hint HINT>
__device__ __forceinline__ void store_stream(int* p, int v, unsigned long long policy) {
  if (HINT == EVICT_FIRST)
    asm volatile("st.global.L2::cache_hint.s32 [%0], %1, %2;" ::"l"(p), "r"(v), "l"(policy) : "memory");
  else
    *p = v;
}

template <bool KEEP>
__device__ __forceinline__ int look_up(const int* p, unsigned long long policy) {
  if (!KEEP) return __ldg(p);
  int v;
  asm volatile("ld.global.nc.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(v) : "l"(p), "l"(policy));
  return v;
}

// The formulas by which the workload draws its indices and its table, for the two yardsticks.
__device__ __forceinline__ int index_of(unsigned int position, const int* __restrict__ key, int entries) {
  unsigned int x = position * (unsigned int)key[2] + (unsigned int)key[3];
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  return (int)__umulhi(x, (unsigned int)entries);
}
__device__ __forceinline__ int value_of(int entry, const int* __restrict__ key) {
  return (int)(((unsigned int)entry * (unsigned int)key[0] + (unsigned int)key[1]) >> 12);
}

// An element a thread, in a grid that goes on until the stream ends. `index` may be null, and so may `table`: the
// formula then takes its place.
template <Hint STREAM, bool KEEP, bool HAS_INDEX = true, bool HAS_TABLE = true>
__device__ void sums(const int* __restrict__ table, const int* __restrict__ index, int* __restrict__ out, long long n,
                     const int* __restrict__ key = nullptr, int entries = 0) {
  const unsigned long long first = STREAM == EVICT_FIRST ? policy_evict_first() : 0;
  const unsigned long long last = KEEP ? policy_evict_last() : 0;
  const long long step = gridDim.x * (long long)blockDim.x;
  auto value = [&](int entry) { return HAS_TABLE ? look_up<KEEP>(table + entry, last) : value_of(entry, key); };
#pragma unroll 1  // the compiler unrolls the form without a hint only, which would be a second difference
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
    int4 one, two;
    if (HAS_INDEX) {
      const int4* here = reinterpret_cast<const int4*>(index + LOOKUPS * i);
      one = load_stream<STREAM>(here, first), two = load_stream<STREAM>(here + 1, first);
    } else {
      const unsigned int at = LOOKUPS * (unsigned int)i;
      one = make_int4(index_of(at, key, entries), index_of(at + 1, key, entries), index_of(at + 2, key, entries),
                      index_of(at + 3, key, entries));
      two = make_int4(index_of(at + 4, key, entries), index_of(at + 5, key, entries), index_of(at + 6, key, entries),
                      index_of(at + 7, key, entries));
    }
    const int a = value(one.x), b = value(one.y), c = value(one.z), d = value(one.w);
    const int e = value(two.x), f = value(two.y), g = value(two.z), h = value(two.w);
    store_stream<STREAM>(out + i, ((a + b) + (c + d)) + ((e + f) + (g + h)), first);
  }
}

extern "C" __global__ void plain(const int* __restrict__ table, const int* __restrict__ index, int* __restrict__ out,
                                 long long n) {
  sums<NONE, false>(table, index, out, n);
}
extern "C" __global__ void past_l1(const int* __restrict__ table, const int* __restrict__ index,
                                   int* __restrict__ out, long long n) {
  sums<PAST_L1, false>(table, index, out, n);
}
extern "C" __global__ void stream_first(const int* __restrict__ table, const int* __restrict__ index,
                                        int* __restrict__ out, long long n) {
  sums<EVICT_FIRST, false>(table, index, out, n);
}
extern "C" __global__ void table_last(const int* __restrict__ table, const int* __restrict__ index,
                                      int* __restrict__ out, long long n) {
  sums<NONE, true>(table, index, out, n);
}
extern "C" __global__ void both(const int* __restrict__ table, const int* __restrict__ index, int* __restrict__ out,
                                long long n) {
  sums<EVICT_FIRST, true>(table, index, out, n);
}
// The two parts of the work, each by itself.
extern "C" __global__ void stream_alone(const int* __restrict__ index, const int* __restrict__ key,
                                        int* __restrict__ out, long long n) {
  sums<NONE, false, true, false>(nullptr, index, out, n, key);
}
extern "C" __global__ void look_ups_alone(const int* __restrict__ table, const int* __restrict__ key,
                                          int* __restrict__ out, long long n, int entries) {
  sums<NONE, false, false, true>(table, nullptr, out, n, key, entries);
}
