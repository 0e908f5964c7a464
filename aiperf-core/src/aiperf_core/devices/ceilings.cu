// Kernels that measure the ceilings of a GPU where they come closer than a library's.

// n counts float4 values and is a multiple of 4 * blockDim.x. A thread has four 16-byte accesses in flight; the accesses
// of a warp are adjacent. Loads and stores are marked as streaming, because no value is used twice.
extern "C" __global__ void copy4(const float4* a_ptr, float4* b_ptr, long long n) {
  const long long tile = 4LL * blockDim.x;
  for (long long at = blockIdx.x * tile + threadIdx.x; at < n; at += gridDim.x * tile) {
    float4 part[4];
#pragma unroll
    for (int k = 0; k < 4; k++) part[k] = __ldcs(a_ptr + at + k * blockDim.x);
#pragma unroll
    for (int k = 0; k < 4; k++) __stcs(b_ptr + at + k * blockDim.x, part[k]);
  }
}

// Reads the array `rounds` times past L1: once for the rate of memory, repeatedly for the rate of L2 if it fits there.
extern "C" __global__ void read4(const float4* a_ptr, float* out_ptr, long long n, int rounds) {
  const long long tile = 4LL * blockDim.x;
  float total = 0;
  for (int round = 0; round < rounds; round++) {
    for (long long at = blockIdx.x * tile + threadIdx.x; at < n; at += gridDim.x * tile) {
      float4 part[4];
#pragma unroll
      for (int k = 0; k < 4; k++) part[k] = __ldcg(a_ptr + at + k * blockDim.x);
#pragma unroll
      for (int k = 0; k < 4; k++) total += part[k].x + part[k].y + part[k].z + part[k].w;
    }
  }
  if (total == 0.3f) *out_ptr = total;  // never true, but unknown to the compiler
}

extern "C" __global__ void write4(float4* b_ptr, long long n) {
  const long long tile = 4LL * blockDim.x;
  const float4 one = make_float4(1, 1, 1, 1);
  for (long long at = blockIdx.x * tile + threadIdx.x; at < n; at += gridDim.x * tile) {
#pragma unroll
    for (int k = 0; k < 4; k++) __stcs(b_ptr + at + k * blockDim.x, one);
  }
}

// Eight independent chains a thread hide the latency of a multiply-add; nothing leaves the registers.
// A round is 64 multiply-adds a thread. With REGISTERS, factors and terms differ from thread to thread, so that all three
// operands are registers and none is a constant or a uniform register.
template <bool REGISTERS, typename T>
__device__ void multiply_add(T* out_ptr, int rounds, T factor, T term) {
  T chain[8], factors[4], terms[4];
#pragma unroll
  for (int k = 0; k < 8; k++) chain[k] = T(threadIdx.x + k);
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const T apart = T(threadIdx.x * 4 + k) * T(1e-6);
    factors[k] = REGISTERS ? factor - apart : factor;
    terms[k] = REGISTERS ? term + apart : term;
  }
  for (int round = 0; round < rounds; round++) {
#pragma unroll
    for (int k = 0; k < 64; k++) chain[k % 8] = chain[k % 8] * factors[k % 4] + terms[(k / 2) % 4];
  }
  T total = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) total += chain[k];
  if (total == T(0.3)) *out_ptr = total;
}

extern "C" __global__ void fma32(float* out_ptr, int rounds, float factor, float term) {
  multiply_add<false>(out_ptr, rounds, factor, term);
}

extern "C" __global__ void fma64(double* out_ptr, int rounds, double factor, double term) {
  multiply_add<false>(out_ptr, rounds, factor, term);
}

extern "C" __global__ void fma32_registers(float* out_ptr, int rounds, float factor, float term) {
  multiply_add<true>(out_ptr, rounds, factor, term);
}

extern "C" __global__ void fma64_registers(double* out_ptr, int rounds, double factor, double term) {
  multiply_add<true>(out_ptr, rounds, factor, term);
}

// Eight independent chains a thread of x -> 2^-x, which stay near 0.64. A round is 16 exponentials a thread.
extern "C" __global__ void exponentials(float* out_ptr, int rounds) {
  float chain[8];
#pragma unroll
  for (int k = 0; k < 8; k++) chain[k] = 0.001f * (threadIdx.x + k);
  for (int round = 0; round < rounds; round++) {
#pragma unroll
    for (int k = 0; k < 16; k++) {
      asm volatile("{ .reg .f32 turned; neg.f32 turned, %0; ex2.approx.ftz.f32 %0, turned; }" : "+f"(chain[k % 8]));
    }
  }
  float total = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) total += chain[k];
  if (total == 0.3f) *out_ptr = total;
}

// Each thread reads 64 sectors of 32 bytes at random places, eight at a time; 16 bytes of a sector fetch all of it.
extern "C" __global__ void random_read(const float4* a_ptr, float* out_ptr, long long sectors) {
  unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1u;
  float total = 0;
  for (int round = 0; round < 8; round++) {
    float4 part[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
      state = state * 1664525u + 1013904223u;
      // The high bits of the product choose the sector: the low bits of this generator repeat soon.
      part[k] = __ldcg(a_ptr + 2 * (long long)(((unsigned long long)(state ^ (state >> 15)) * sectors) >> 32));
    }
#pragma unroll
    for (int k = 0; k < 8; k++) total += part[k].x + part[k].y + part[k].z + part[k].w;
  }
  if (total == 0.3f) *out_ptr = total;
}

// One thread goes from place to place: each read waits for the one before.
extern "C" __global__ void follow(const int* next_ptr, int* out_ptr, int steps) {
  int at = 0;
  for (int step = 0; step < steps; step++) at = __ldcg(next_ptr + at);
  *out_ptr = at;
}

// 32 lanes read 32 adjacent float4 values: every bank once in each of four cycles. A round is eight such reads a thread.
extern "C" __global__ void shared_read(float* out_ptr, int rounds) {
  __shared__ float4 tile[512 + 8 * 32];
  for (int at = threadIdx.x; at < 512 + 8 * 32; at += blockDim.x) tile[at] = make_float4(at, 1, 2, 3);
  __syncthreads();
  float4 total = make_float4(0, 0, 0, 0);
  int at = threadIdx.x % 512;
  for (int round = 0; round < rounds; round++) {
    const float4* from = tile + at;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      const float4 part = from[32 * k];
      total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
    }
    at = (at + 32) % 512;  // other addresses in each round: otherwise the compiler reads once
  }
  if (total.x + total.y + total.z + total.w == 0.3f) *out_ptr = total.x;
}
