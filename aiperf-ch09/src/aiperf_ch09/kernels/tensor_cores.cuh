// The instructions of tensor cores that this chapter uses, each a function, and what its matrix products share. Fragments
// lie as the PTX manual draws them. Tests on the host replace the first part by what the manual says.
#pragma once
#ifndef TENSOR_CORE_INSTRUCTIONS
#include "aiperf/bulk.cuh"

__device__ __forceinline__ unsigned int pack_bf16(float low, float high) {
  unsigned int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ __forceinline__ unsigned short to_bf16(float v) { return (unsigned short)pack_bf16(v, 0); }
__device__ __forceinline__ float power_of_2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// Four matrices of 8 x 8 bfloat16. Lane 8 i + r gives the address of row r of matrix i, which is 16 bytes; lane l gets
// elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of each.
__device__ __forceinline__ void load_matrices(unsigned int (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same, transposed: lane l gets elements l / 4 of rows 2 (l % 4) and 2 (l % 4) + 1 of each.
__device__ __forceinline__ void load_transposed(unsigned int (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
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

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The reverse of `load_matrices`.
__device__ __forceinline__ void store_matrices(void* row, unsigned int r0, unsigned int r1, unsigned int r2,
                                               unsigned int r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives at the same barrier of block `rank` of the cluster, and publishes nothing: at the scope of the cluster that would
// be a fence of all memory.
__device__ __forceinline__ void barrier_arrive(Barrier* barrier, unsigned int rank) {
  asm volatile(
      "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
// Every thread of the cluster arrives and waits for all of them. Publishes nothing but initialised barriers, for which
// there is a fence of their own.
__device__ __forceinline__ void cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// As `tensor_load`, to the same place of all blocks in `mask`, whose barriers count the bytes.
__device__ __forceinline__ void tensor_load_all(void* to, const CUtensorMap* map, int x, int y, Barrier* barrier,
                                                unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(mask)
      : "memory");
}
// The threads of a warpgroup wait for each other.
__device__ __forceinline__ void warpgroup_sync() {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory");
}

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

// D (64 x 256) += A (64 x 16) B^T (256 x 16) by a warpgroup; without `keep`, D is the product alone. d[i] of a thread is
// the element in row 16 (warp % 4) + lane / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4) + i % 2.
#define EIGHT(i)                                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define THIRTY_TWO(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24)
#define REGISTERS_64                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "        \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_128                                                                                  \
  REGISTERS_64                                                                                         \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                  \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                    \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "        \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
__device__ __forceinline__ void multiply_64x256x16(float (&d)[128], unsigned long long a, unsigned long long b,
                                                   int keep) {
  asm volatile(
      "{ .reg .pred keep; setp.ne.b32 keep, %130, 0; "
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" REGISTERS_128 "}, %128, %129, keep, 1, 1, 0, 0; }"
      : THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)
      : "l"(a), "l"(b), "r"(keep));
}
// The same for operands in e4m3, 32 of k, and 256 or 128 columns.
__device__ __forceinline__ void multiply_e4m3(float (&d)[128], unsigned long long a, unsigned long long b, int keep) {
  asm volatile(
      "{ .reg .pred keep; setp.ne.b32 keep, %130, 0; "
      "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {" REGISTERS_128 "}, %128, %129, keep, 1, 1; }"
      : THIRTY_TWO(0), THIRTY_TWO(32), THIRTY_TWO(64), THIRTY_TWO(96)
      : "l"(a), "l"(b), "r"(keep));
}
__device__ __forceinline__ void multiply_e4m3(float (&d)[64], unsigned long long a, unsigned long long b, int keep) {
  asm volatile(
      "{ .reg .pred keep; setp.ne.b32 keep, %66, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" REGISTERS_64 "}, %64, %65, keep, 1, 1; }"
      : THIRTY_TWO(0), THIRTY_TWO(32)
      : "l"(a), "l"(b), "r"(keep));
}
#endif
#endif

typedef unsigned short Half;  // the bits of a bfloat16

__device__ __forceinline__ constexpr int parts(int size, int part) { return (size + part - 1) / part; }

// The first row and column of a tile of ROWS x COLUMNS. Tiles are numbered down the columns of a group of rows of
// tiles, so that those that are computed at the same time find each other's operands in L2.
template <int ROWS, int COLUMNS, int GROUP>
struct Corner {
  int row, column;
  __device__ __forceinline__ Corner(int tile, int m, int n) {
    const int down = parts(m, ROWS), across = parts(n, COLUMNS);
    const int group = tile / (GROUP * across) * GROUP, rest = tile % (GROUP * across);
    const int high = min(GROUP, down - group);
    row = (group + rest % high) * ROWS, column = rest / high * COLUMNS;
  }
};

// Where 16-byte piece p of row r lies in rows of 64 elements, as TMA's 128-byte swizzle has it: pieces change places by
// the number of the row, so that the eight rows of a matrix lie in different banks.
__device__ __forceinline__ int place(int r, int p) { return r * 64 + (p ^ (r & 7)) * 8; }

// Elements (r, c) and (r, c + 1) of an m x n matrix, as far as they are inside. c is even.
__device__ __forceinline__ void store_pair(Half* out, int r, int c, int m, int n, float low, float high) {
  if (r >= m || c >= n) return;
  Half* to = out + r * (long long)n + c;
  if (n % 2 == 0) {
    *reinterpret_cast<unsigned int*>(to) = pack_bf16(low, high);
  } else {
    to[0] = to_bf16(low);
    if (c + 1 < n) to[1] = to_bf16(high);
  }
}
