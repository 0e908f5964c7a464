// out = 2a + 1; only the assignment of elements to threads differs.
#define PER_THREAD 32
#define QUADS 8  // 16-byte accesses of 32 elements

// Each thread takes 32 elements in a row, so lane i starts at element 32 i. The 32 loads of a warp touch 32 sectors of
// 32 bytes, and use 4 bytes of each; the rest is used by the next seven loads, if the cache still has it.
extern "C" __global__ void strided(const float* __restrict__ a, float* __restrict__ out, long long n) {
  long long first = PER_THREAD * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
#pragma unroll 8
  for (int k = 0; k < PER_THREAD; ++k) {
    long long i = first + k;
    if (i < n) out[i] = 2 * a[i] + 1;
  }
}

// Thread i takes element i * step mod n, which visits every element once where step and n have no common factor. A
// step of about 0.618 n puts neighbouring lanes far apart: no sector is ever used twice.
extern "C" __global__ void permuted(const float* __restrict__ a, float* __restrict__ out, long long n, long long step) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long j = i * step % n;
  out[j] = 2 * a[j] + 1;
}

// The same 32 elements a thread as `strided`, dealt out lane by lane: the 128 bytes that a warp loads are one line.
extern "C" __global__ void coalesced(const float* __restrict__ a, float* __restrict__ out, long long n) {
  long long first = PER_THREAD * (blockIdx.x * (long long)blockDim.x) + threadIdx.x;
#pragma unroll 8
  for (int k = 0; k < PER_THREAD; ++k) {
    long long i = first + k * (long long)blockDim.x;
    if (i < n) out[i] = 2 * a[i] + 1;
  }
}

// Elements 4 q to 4 q + 3, in one 16-byte load and store.
__device__ __forceinline__ void quad(const float* __restrict__ a, float* __restrict__ out, long long q) {
  float4 v = reinterpret_cast<const float4*>(a)[q];
  v.x = 2 * v.x + 1, v.y = 2 * v.y + 1, v.z = 2 * v.z + 1, v.w = 2 * v.w + 1;
  reinterpret_cast<float4*>(out)[q] = v;
}
// The same where fewer than four elements may be left.
__device__ void quad_at_end(const float* __restrict__ a, float* __restrict__ out, long long n, long long q) {
  if (4 * q + 3 < n) return quad(a, out, q);
#pragma unroll 1
  for (long long i = 4 * q; i < n; ++i) out[i] = 2 * a[i] + 1;
}

// 32 elements a thread as eight quads. Two are in flight at once: 32 bytes, as in `coalesced`.
extern "C" __global__ void wide(const float* __restrict__ a, float* __restrict__ out, long long n) {
  const long long step = blockDim.x, first = QUADS * (blockIdx.x * step) + threadIdx.x;
  if (4 * (first + (QUADS - 1) * step) + 3 < n) {
#pragma unroll 2
    for (int k = 0; k < QUADS; ++k) quad(a, out, first + k * step);
  } else {
#pragma unroll 1
    for (int k = 0; k < QUADS; ++k) quad_at_end(a, out, n, first + k * step);
  }
}

// One quad a thread.
extern "C" __global__ void more_threads(const float* __restrict__ a, float* __restrict__ out, long long n) {
  quad_at_end(a, out, n, blockIdx.x * (long long)blockDim.x + threadIdx.x);
}
