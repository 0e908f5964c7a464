// The copies that run beside the threads: cp.async (from sm_80) and, with their barriers, bulk copies and TMA (from sm_90).
// Each function is one instruction, under the name that the PTX manual's text gives to what it does.
#pragma once
#include <cuda.h>

__device__ __forceinline__ unsigned int shared_address(const void* p) {
  return (unsigned int)__cvta_generic_to_shared(p);
}

// 16 bytes from global to shared memory, past the registers; what lies beyond `bytes` of them is written as zeros.
__device__ __forceinline__ void async_copy16(void* to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void async_copy4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most N of this thread's groups are still under way.
template <int N>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#if __CUDA_ARCH__ >= 900
typedef unsigned long long Barrier;

__device__ __forceinline__ void barrier_init(Barrier* barrier, unsigned int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Lets the copy engine see initialised barriers.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Arrives, and says how many bytes the copy engine will report before the phase is over.
__device__ __forceinline__ void barrier_expect(Barrier* barrier, unsigned int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_wait(Barrier* barrier, unsigned int parity) {
  unsigned int done = 0;
  while (!done) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}
// What threads wrote to shared memory becomes visible to the copy engine.
__device__ __forceinline__ void fence_for_copy_engine() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// `bytes` and both addresses are multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, unsigned int bytes, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, const void* from, unsigned int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until all but N stores have read their shared memory, which may then be written again.
template <int N>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
// Until all but N stores are done.
template <int N>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// A box of a tensor that `map` describes; coordinates in elements, the innermost first. Beyond the edges it reads zeros.
__device__ __forceinline__ void tensor_load(void* to, const CUtensorMap* map, int x, int y, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}
__device__ __forceinline__ void tensor_load(void* to, const CUtensorMap* map, int x, int y, int z, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
}
// Beyond the edges nothing is written.
__device__ __forceinline__ void tensor_store(const CUtensorMap* map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
               "r"(y), "r"(shared_address(from))
               : "memory");
}
#endif
