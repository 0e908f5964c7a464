// Instructions of tensor cores and clusters. Each function is one of them; fragments lie as the PTX manual draws them.
// Tests on the host replace this file by what the manual says (tests/emulator).
#ifndef CHAPTER10_INSTRUCTIONS
#define CHAPTER10_INSTRUCTIONS
#include "aiperf/bulk.cuh"

// bfloat16 is the upper half of a float.
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
#endif
