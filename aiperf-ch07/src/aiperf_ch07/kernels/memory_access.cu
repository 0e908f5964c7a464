// b = 2a + 1, four times over; only the assignment of elements to threads differs.
#define PER_THREAD 32

// Each thread takes 32 elements in a row, so lane i starts at element 32 i. The 32 loads of a warp touch 32 sectors of
// 32 bytes, and use 4 bytes of each; the rest is used by the next seven loads, if the cache still has it.
extern "C" __global__ void strided(const float* __restrict__ a, float* __restrict__ b, long long n) {
  long long first = PER_THREAD * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
#pragma unroll 8
  for (int k = 0; k < PER_THREAD; ++k) {
    long long i = first + k;
    if (i < n) b[i] = 2 * a[i] + 1;
  }
}

// Thread i takes element i * step mod n, which visits every element once where step and n have no common factor. A
// step of about 0.618 n puts neighbouring lanes far apart: no sector is ever used twice.
extern "C" __global__ void permuted(const float* __restrict__ a, float* __restrict__ b, long long n, long long step) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long j = i * step % n;
  b[j] = 2 * a[j] + 1;
}

// The same 32 elements a thread as `strided`, dealt out lane by lane: the 128 bytes that a warp loads are one line.
extern "C" __global__ void coalesced(const float* __restrict__ a, float* __restrict__ b, long long n) {
  long long first = PER_THREAD * (blockIdx.x * (long long)blockDim.x) + threadIdx.x;
#pragma unroll 8
  for (int k = 0; k < PER_THREAD; ++k) {
    long long i = first + k * (long long)blockDim.x;
    if (i < n) b[i] = 2 * a[i] + 1;
  }
}

// Lane i takes elements 4i to 4i + 3 in one 16-byte load and store; the last thread takes what is left over.
extern "C" __global__ void wide(const float* __restrict__ a, float* __restrict__ b, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (4 * i + 3 < n) {
    float4 v = reinterpret_cast<const float4*>(a)[i];
    v.x = 2 * v.x + 1, v.y = 2 * v.y + 1, v.z = 2 * v.z + 1, v.w = 2 * v.w + 1;
    reinterpret_cast<float4*>(b)[i] = v;
  } else {
    for (long long j = 4 * i; j < n; ++j) b[j] = 2 * a[j] + 1;
  }
}
