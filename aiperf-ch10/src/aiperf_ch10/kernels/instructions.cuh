// Instructions of tensor cores and clusters. Each function is one of them; fragments lie as the PTX manual draws them.
// Tests on the host replace this file by what the manual says (tests/emulator).
#ifndef CHAPTER10_INSTRUCTIONS
#define CHAPTER10_INSTRUCTIONS
#include "aiperf/bulk.cuh"

// bfloat16 is the upper half of a float.
__device__ __forceinline__ float from_bf16(unsigned short v) { return __uint_as_float((unsigned int)v << 16); }
__device__ __forceinline__ unsigned int pack_bf16(float low, float high) {
  unsigned int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ __forceinline__ float power_of_2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
__device__ __forceinline__ unsigned short to_bf16(float v) { return (unsigned short)pack_bf16(v, 0); }

// Four matrices of 8 x 8 bfloat16. Lane 8 i + r gives the address of row r of matrix i, which is 16 bytes; lane l gets
// elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of each.
__device__ __forceinline__ void load_matrices(unsigned int (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// C (16 x 8) += A (16 x 16) B (16 x 8). With g = lane / 4, t = 2 (lane % 4), a pair is an element and the next in k:
// a: pairs (g, t), (g + 8, t), (g, t + 8), (g + 8, t + 8); b: column g, pairs from t and from t + 8;
// c: (g, t), (g, t + 1), (g + 8, t), (g + 8, t + 1).
__device__ __forceinline__ void multiply_16x8x16(float (&c)[4], const unsigned int (&a)[4], unsigned int b0,
                                                 unsigned int b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#if __CUDA_ARCH__ >= 900
// Every thread of the cluster arrives, and later waits for all of them. What was written to shared memory of the
// cluster before is visible after.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
// Writes to the same variable in the shared memory of another block of the cluster.
__device__ __forceinline__ void store_remote(float* variable, unsigned int rank, float value) {
  asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; st.shared::cluster.f32 [remote], %2; }" ::
                   "r"(shared_address(variable)),
               "r"(rank), "f"(value)
               : "memory");
}
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Registers of a warpgroup's threads: 40 for those that only ask for copies, 232 for those that multiply. All warps of
// the warpgroup execute it.
__device__ __forceinline__ void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ __forceinline__ void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }

// Describes an operand in shared memory to wgmma: rows of 64 bfloat16 (128 bytes) along k, with the 128-byte swizzle,
// groups of eight rows 1024 bytes apart. Rows begin at a multiple of 1024 bytes; `p` may be up to 96 bytes further, to
// start at a later k, because the swizzle is a function of the address.
__device__ __forceinline__ unsigned long long operand(const void* p) {
  const unsigned long long address = (shared_address(p) & 0x3ffff) >> 4;
  return address | 1ull << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}
// The same for an operand that lies along its columns: a row of 64 columns (128 bytes) for each of k, and the next 64
// columns `next_bytes` further. `p` is at a multiple of eight rows.
__device__ __forceinline__ unsigned long long operand_by_columns(const void* p, int next_bytes) {
  const unsigned long long address = (shared_address(p) & 0x3ffff) >> 4;
  return address | (unsigned long long)(next_bytes >> 4) << 16 | (1024ull >> 4) << 32 | 1ull << 62;
}
// Before the first product, and wherever registers of its result were touched.
__device__ __forceinline__ void product_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void product_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most N groups of products are under way.
template <int N>
__device__ __forceinline__ void product_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// Keeps the compiler from moving accesses of registers past here, which it cannot know to be written by a product.
template <int N>
__device__ __forceinline__ void registers_fence(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

template <int N>
__device__ __forceinline__ void registers_fence(unsigned int (&a)[N][4]) {
#pragma unroll
  for (int i = 0; i < 4 * N; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

#define EIGHT(i)                                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define THIRTY_TWO(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24)
#define REGISTERS_64                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "        \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
// D (64 x 128) += A (64 x 16) B^T (128 x 16) by a warpgroup; without `keep`, D is the product alone. d[i] of a thread is
// the element in row 16 (warp % 4) + lane / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4) + i % 2.
__device__ __forceinline__ void multiply_64x128x16(float (&d)[64], unsigned long long a, unsigned long long b,
                                                   int keep) {
  asm volatile(
      "{ .reg .pred keep; setp.ne.b32 keep, %66, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_64 "}, %64, %65, keep, 1, 1, 0, 0; }"
      : THIRTY_TWO(0), THIRTY_TWO(32)
      : "l"(a), "l"(b), "r"(keep));
}
// D += A B with A in registers, as d lies in them: a[0] and a[1] are pairs of columns 2 (lane % 4) and the next in row
// lane / 4 and the row 8 further, a[2] and a[3] those 8 columns further. B is `operand_by_columns`.
__device__ __forceinline__ void multiply_64x128x16(float (&d)[64], const unsigned int (&a)[4], unsigned long long b,
                                                   int keep) {
  asm volatile(
      "{ .reg .pred keep; setp.ne.b32 keep, %69, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_64
      "}, {%64, %65, %66, %67}, %68, keep, 1, 1, 1; }"
      : THIRTY_TWO(0), THIRTY_TWO(32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}

// Arrives at a barrier without bytes.
__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Two warpgroups take turns: one waits for its turn, which the other gives. As many turns are given as are waited for.
__device__ __forceinline__ void turn_wait(int group) { asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory"); }
__device__ __forceinline__ void turn_give(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(1 + group) : "memory");
}
#endif
#endif
