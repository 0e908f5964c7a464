// out = p(x) at points begin to end, with p given by its coefficients, which each block has in shared memory.
#define THREADS 512
#define CHAINS 16  // points of a tile that a thread computes at once
#define MOST 20    // of a share, which may be a little more than a tile

// The coefficients as Horner's rule takes them, the highest first, in fours: in front stand as many zeros as it takes,
// of which 0 x + 0 is 0. A load of four serves all points of a thread, so that most instructions are multiply-adds.
__device__ __forceinline__ int fours(int degree) { return degree / 4 + 1; }

__device__ __forceinline__ void load(const float* __restrict__ coefficients, float4* kept, int degree) {
  float* to = reinterpret_cast<float*>(kept);
  const int all = 4 * fours(degree);
  for (int k = threadIdx.x; k < all; k += blockDim.x) to[all - 1 - k] = k <= degree ? coefficients[k] : 0;
  __syncthreads();
}

// COUNT points of a thread, at first, first + step, ... as far as they lie before `end`; further ones are copies of the
// last. (Zeros would be made in pairs of registers, and put point and sum of a chain into the same bank of registers,
// where a multiply-add waits for its second operand.) The chains do not wait for each other: with 16 of them in each of
// 16 warps, an SM starts multiply-adds all the time.
template <int COUNT>
__device__ __forceinline__ void at_points(const float* __restrict__ x, const float4* kept, float* __restrict__ out,
                                          int degree, long long first, long long end, int step) {
  float here[COUNT], y[COUNT];
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
    const long long i = first + (long long)k * step;
    here[k] = x[i < end ? i : end - 1], y[k] = 0;
  }
#pragma unroll 4
  for (int j = 0; j < fours(degree); ++j) {
    const float4 c = kept[j];
#pragma unroll
    for (int k = 0; k < COUNT; ++k) y[k] = fmaf(y[k], here[k], c.x);
#pragma unroll
    for (int k = 0; k < COUNT; ++k) y[k] = fmaf(y[k], here[k], c.y);
#pragma unroll
    for (int k = 0; k < COUNT; ++k) y[k] = fmaf(y[k], here[k], c.z);
#pragma unroll
    for (int k = 0; k < COUNT; ++k) y[k] = fmaf(y[k], here[k], c.w);
  }
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
    const long long i = first + (long long)k * step;
    if (i < end) out[i] = y[k];
  }
}

// 16 points a thread: with 512 threads a tile of 8192, with 256 half of one.
extern "C" __global__ void __launch_bounds__(THREADS)
    tile_per_block(const float* __restrict__ x, const float* __restrict__ coefficients, float* __restrict__ out,
                   long long n, int degree) {
  extern __shared__ float4 kept[];
  load(coefficients, kept, degree);
  at_points<CHAINS>(x, kept, out, degree, blockIdx.x * (long long)CHAINS * blockDim.x + threadIdx.x, n, blockDim.x);
}

// Block b of B has the points from n b / B to n (b + 1) / B, and each of its threads every 512th of them. All lanes of
// a warp count as many points as its first, which has the most: else they would part ways below. The points are
// computed in groups of up to MOST, all of about the same size, so that no group is a single chain.
extern "C" __global__ void __launch_bounds__(THREADS)
    even_shares(const float* __restrict__ x, const float* __restrict__ coefficients, float* __restrict__ out,
                long long n, int degree) {
  extern __shared__ float4 kept[];
  load(coefficients, kept, degree);
  const long long begin = n * blockIdx.x / gridDim.x, end = n * (blockIdx.x + 1) / gridDim.x;
  const long long first_of_warp = begin + threadIdx.x / 32 * 32;
  long long first = begin + threadIdx.x;
  int points = first_of_warp < end ? (int)((end - first_of_warp + THREADS - 1) / THREADS) : 0;
  for (int groups = (points + MOST - 1) / MOST; groups > 0; --groups) {
    const int count = points / groups;  // at most MOST, because points is at most MOST * groups
    switch (count) {
      case 1: at_points<1>(x, kept, out, degree, first, end, THREADS); break;
      case 2: at_points<2>(x, kept, out, degree, first, end, THREADS); break;
      case 3: at_points<3>(x, kept, out, degree, first, end, THREADS); break;
      case 4: at_points<4>(x, kept, out, degree, first, end, THREADS); break;
      case 5: at_points<5>(x, kept, out, degree, first, end, THREADS); break;
      case 6: at_points<6>(x, kept, out, degree, first, end, THREADS); break;
      case 7: at_points<7>(x, kept, out, degree, first, end, THREADS); break;
      case 8: at_points<8>(x, kept, out, degree, first, end, THREADS); break;
      case 9: at_points<9>(x, kept, out, degree, first, end, THREADS); break;
      case 10: at_points<10>(x, kept, out, degree, first, end, THREADS); break;
      case 11: at_points<11>(x, kept, out, degree, first, end, THREADS); break;
      case 12: at_points<12>(x, kept, out, degree, first, end, THREADS); break;
      case 13: at_points<13>(x, kept, out, degree, first, end, THREADS); break;
      case 14: at_points<14>(x, kept, out, degree, first, end, THREADS); break;
      case 15: at_points<15>(x, kept, out, degree, first, end, THREADS); break;
      case 16: at_points<16>(x, kept, out, degree, first, end, THREADS); break;
      case 17: at_points<17>(x, kept, out, degree, first, end, THREADS); break;
      case 18: at_points<18>(x, kept, out, degree, first, end, THREADS); break;
      case 19: at_points<19>(x, kept, out, degree, first, end, THREADS); break;
      default: at_points<MOST>(x, kept, out, degree, first, end, THREADS); break;
    }
    points -= count, first += (long long)count * THREADS;
  }
}
