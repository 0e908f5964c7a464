// Packed weights become bfloat16: out[i] = q[i] * scale[i / 128], with q of four bits (0 to 15, less 8; the low half of
// a byte first) or of eight (e4m3). All products are exact in float and rounded once, so that every kernel gives the
// same bits.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#define GROUP 128

// One instruction from sm_89 on.
__device__ __forceinline__ float e4m3(unsigned int byte) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

__device__ __forceinline__ __nv_bfloat16 scaled(float value, __nv_bfloat16 scale) {
  return __float2bfloat16_rn(value * __bfloat162float(scale));
}

// A byte a thread: each lane loads one byte and stores two bytes, or four.
extern "C" __global__ void byte4(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
                                 __nv_bfloat16* __restrict__ out, long long n) {
  const long long i = 2 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
  if (i >= n) return;
  const int byte = packed[i / 2];
  out[i] = scaled(byte % 16 - 8, scales[i / GROUP]);
  if (i + 1 < n) out[i + 1] = scaled(byte / 16 - 8, scales[i / GROUP]);
}
extern "C" __global__ void byte8(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
                                 __nv_bfloat16* __restrict__ out, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = scaled(e4m3(packed[i]), scales[i / GROUP]);
}

union Eight {
  uint4 all;
  unsigned int pairs[4];
  __nv_bfloat16 values[8];
};

// Eight weights by arithmetic, each by itself: taken out of their word, made a float, scaled, rounded.
struct ByArithmetic4 {
  typedef unsigned int Word;
  static __device__ __forceinline__ float value(const unsigned char* packed, long long i) {
    return (packed[i / 2] >> 4 * (i % 2) & 15) - 8;
  }
  static __device__ __forceinline__ Eight convert(Word word, __nv_bfloat16 scale) {
    Eight out;
#pragma unroll
    for (int k = 0; k < 8; ++k) out.values[k] = scaled((int)(word >> 4 * k & 15) - 8, scale);
    return out;
  }
};
struct ByArithmetic8 {
  typedef uint2 Word;
  static __device__ __forceinline__ float value(const unsigned char* packed, long long i) { return e4m3(packed[i]); }
  static __device__ __forceinline__ Eight convert(Word word, __nv_bfloat16 scale) {
    Eight out;
#pragma unroll
    for (int k = 0; k < 8; ++k) out.values[k] = scaled(e4m3((k < 4 ? word.x : word.y) >> 8 * (k % 4) & 255), scale);
    return out;
  }
};

// d = a * b + c on two bfloat16 at once, rounded once.
__device__ __forceinline__ unsigned int fma_pair(unsigned int a, unsigned int b, unsigned int c) {
  unsigned int d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ unsigned int pair_of(__nv_bfloat16 value) {
  const unsigned int bits = __bfloat16_as_ushort(value);
  return bits << 16 | bits;
}
#define MINUS_ZEROS 0x80008000u  // added to a product, they change nothing, not even the sign of a zero

// Eight weights by bits. A weight that is written into the last bits of 128.0 (0x4300) makes it 128 + q, and taking 136
// away leaves q - 8: no conversion. One prmt puts a byte into both halves of a word, in the upper one moved down by
// four bits; one lop3 keeps four bits of each half and sets those of 128.0; two fma finish both weights.
struct ByBits4 : ByArithmetic4 {
  static __device__ __forceinline__ Eight convert(Word word, __nv_bfloat16 scale) {
    Eight out;
    const unsigned int factor = pair_of(scale), moved = word >> 4;
#pragma unroll
    for (int byte = 0; byte < 4; ++byte) {
      const unsigned int both = __byte_perm(word, moved, 0x4400 + 0x1111 * byte);
      const unsigned int biased = (both & 0x000f000fu) | 0x43004300u;
      out.pairs[byte] = fma_pair(fma_pair(biased, 0x3f803f80u, 0xc308c308u), factor, MINUS_ZEROS);
    }
    return out;
  }
};
// An e4m3 in the upper byte of 16 bits is a bfloat16 but for the place of its exponent: moved down by four bits, its
// value is 2^-120 of what it was, subnormal numbers included, and the scale takes that back.
struct ByBits8 : ByArithmetic8 {
  static __device__ __forceinline__ Eight convert(Word word, __nv_bfloat16 scale) {
    Eight out;
    const unsigned int factor = pair_of(__ushort_as_bfloat16(__bfloat16_as_ushort(scale) + (120u << 7)));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned int two = __byte_perm(k < 2 ? word.x : word.y, 0, k % 2 ? 0x3424 : 0x1404);
      const unsigned int moved = (two & 0x80008000u) | (two >> 4 & 0x07f007f0u);
      out.pairs[k] = fma_pair(moved, factor, MINUS_ZEROS);
    }
    return out;
  }
};

// ACCESSES times eight weights a thread. What is stored is four times (twice, with eight bits) what is loaded, so it is
// the store that has 16 bytes, and the load that has 4 (8). Were the loads 16 bytes wide, the stores of neighbouring
// lanes would lie 64 bytes apart. The last n % 8 weights are made by the first threads of the first block.
template <typename Convert, int ACCESSES>
__global__ void eights(const unsigned char* __restrict__ packed, const __nv_bfloat16* __restrict__ scales,
                       __nv_bfloat16* __restrict__ out, long long n) {
  typedef typename Convert::Word Word;
  const long long count = n / 8, first = ACCESSES * (blockIdx.x * (long long)blockDim.x) + threadIdx.x;
  Word words[ACCESSES];
#pragma unroll
  for (int k = 0; k < ACCESSES; ++k)
    if (first + k * blockDim.x < count) words[k] = reinterpret_cast<const Word*>(packed)[first + k * blockDim.x];
#pragma unroll
  for (int k = 0; k < ACCESSES; ++k) {
    const long long at = first + k * blockDim.x;
    if (at < count) reinterpret_cast<uint4*>(out)[at] = Convert::convert(words[k], scales[at / (GROUP / 8)]).all;
  }
  const long long last = count * 8 + threadIdx.x;
  if (blockIdx.x == 0 && last < n) out[last] = scaled(Convert::value(packed, last), scales[last / GROUP]);
}
