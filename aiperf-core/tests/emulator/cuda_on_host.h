// Runs kernels of chapters on the host, to test their index arithmetic and their barriers where there is no GPU.
// Threads of a block are coroutines, in random order; blocks of a cluster are threads of the host. The instructions of
// the copy engine and of the tensor cores, which the kernels call through headers, are replaced by what the PTX manual
// says that they do. `eager` decides when asynchronous work takes place: at once, or as late as the manual allows. A
// missing wait gives wrong answers in one of the two. A wait that never ends is an error.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ thread_local
// In place of instructions.cuh and of the first part of chapter 9's tensor_cores.cuh, and of aiperf/bulk.cuh.
#define CHAPTER10_INSTRUCTIONS
#define TENSOR_CORE_INSTRUCTIONS

using std::max;
using std::min;
struct dim3 { unsigned int x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }

inline thread_local dim3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline bool eager;
inline std::atomic<bool> failed;

// Coroutines that meet: the last of `size` does the work for all.
struct Meeting {
  int count = 0;
  long turn = 0;
  void* slots[512];
  bool arrive(int size) {  // whether it is the last
    if (++count < size) return false;
    count = 0, turn++;
    return true;
  }
};
struct Fiber {
  ucontext_t context;  // where it begins
  jmp_buf at;          // where it goes on, and `Block::at` the scheduler: a jump needs no call of the kernel
  std::unique_ptr<char[]> stack;
  int id = 0;
  bool begun = false, done = false;
  std::function<bool()> ready;
  std::vector<std::vector<std::function<void()>>> groups{1}, products{1}, stores{1};  // not yet done: cp.async, wgmma, TMA
};
struct Cluster {
  int blocks;
  std::atomic<int> arrived{0};
  std::vector<char*> bases;
  // How often a block has got on; and for each block, at which of these it could not.
  std::atomic<long> steps{0};
  std::atomic<long> stuck_at[16];
  bool is_stuck() const {
    const long now = steps;
    return std::all_of(stuck_at, stuck_at + blocks, [now](long at) { return at == now || at < 0; });
  }
};
struct Block {
  jmp_buf at;
  std::vector<Fiber> fibers;
  std::vector<std::function<void()>> engine;  // what the copy engine has not yet done
  Meeting all, warps[32], warpgroups[8], turns[2];
  Cluster* cluster;
  int rank;
  std::mt19937 random;
};
inline thread_local Block* block;
inline thread_local Fiber* fiber;
inline thread_local char tls_base;

inline void leave() {
  if (!_setjmp(fiber->at)) _longjmp(block->at, 1);
}
inline void wait_until(std::function<bool()> ready) {
  if (ready()) return;
  fiber->ready = ready;
  leave();
}
template <typename F>
void meet(Meeting& m, int size, int slot, void* mine, F work) {
  m.slots[slot] = mine;
  const long turn = m.turn;
  if (++m.count == size) {
    work(m.slots);
    m.count = 0, m.turn++;
  } else {
    wait_until([&m, turn] { return m.turn != turn; });
  }
}
inline int lane() { return threadIdx.x % 32; }
template <typename F>
void warp_does(void* mine, F work) { meet(block->warps[threadIdx.x / 32], 32, lane(), mine, work); }
inline void __syncthreads() { meet(block->all, blockDim.x, threadIdx.x, nullptr, [](void**) {}); }
inline void __syncwarp(unsigned = ~0u) { warp_does(nullptr, [](void**) {}); }
template <typename T>
T shuffled(T value, std::function<int(int)> from) {
  T pair[2] = {value, value};
  warp_does(pair, [&](void** all) {
    for (int l = 0; l < 32; ++l) ((T*)all[l])[1] = ((T*)all[from(l)])[0];
  });
  return pair[1];
}
template <typename T>
T __shfl_down_sync(unsigned, T v, int by) { return shuffled<T>(v, [by](int l) { return l + by < 32 ? l + by : l; }); }
template <typename T>
T __shfl_up_sync(unsigned, T v, int by) { return shuffled<T>(v, [by](int l) { return l >= by ? l - by : l; }); }
template <typename T>
T __shfl_xor_sync(unsigned, T v, int by) { return shuffled<T>(v, [by](int l) { return l ^ by; }); }
template <typename T>
T __shfl_sync(unsigned, T v, int from) { return shuffled<T>(v, [from](int) { return from; }); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
template <typename T>
T __ldcs(const T* p) { return *p; }
template <typename T>
T __ldcg(const T* p) { return *(const volatile T*)p; }
inline float4 __ldcg(const float4* p) { return *p; }
inline uint4 __ldcg(const uint4* p) { return *p; }
template <typename T>
void __stcs(T* p, T v) { *p = v; }
inline unsigned atomicInc(unsigned* p, unsigned most) {
  unsigned old = __atomic_load_n(p, 5);
  while (!__atomic_compare_exchange_n(p, &old, old >= most ? 0 : old + 1, false, 5, 5)) {
  }
  return old;
}
inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, 5); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) { return __atomic_fetch_add(p, v, 5); }
inline int atomicAdd(int* p, int v) { return __atomic_fetch_add(p, v, 5); }
inline float atomicAdd(float* p, float v) {
  float old = *p, sum;
  do sum = old + v;
  while (!__atomic_compare_exchange(p, &old, &sum, false, 5, 5));
  return old;
}
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float tanh_approximate(float x) { return tanhf(x); }
inline float __uint_as_float(unsigned v) { float f; memcpy(&f, &v, 4); return f; }
inline unsigned __float_as_uint(float v) { unsigned u; memcpy(&u, &v, 4); return u; }

// --- instructions.cuh
inline unsigned short to_bf16(float v) {
  unsigned u = __float_as_uint(v);
  return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
inline float from_bf16(unsigned short v) { return __uint_as_float((unsigned)v << 16); }
inline float power_of_2(float x) { return exp2f(x); }
inline unsigned int pack_bf16(float low, float high) { return to_bf16(low) | (unsigned)to_bf16(high) << 16; }
inline float half_of(unsigned word, int i) { return from_bf16((unsigned short)(word >> 16 * i)); }

inline void load_matrices(unsigned int (&r)[4], const void* row) {
  struct Mine { const unsigned* row; unsigned* r; } mine{(const unsigned*)row, r};
  warp_does(&mine, [](void** all) {
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 4; ++i) ((Mine*)all[l])->r[i] = ((Mine*)all[8 * i + l / 4])->row[l % 4];
  });
}
inline void load_transposed(unsigned int (&r)[4], const void* row) {
  struct Mine { const unsigned short* row; unsigned* r; } mine{(const unsigned short*)row, r};
  warp_does(&mine, [](void** all) {
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 4; ++i) {
        const int from = 8 * i + l % 4 * 2;
        ((Mine*)all[l])->r[i] = ((Mine*)all[from])->row[l / 4] | (unsigned)((Mine*)all[from + 1])->row[l / 4] << 16;
      }
  });
}
inline void store_matrices(void* row, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
  struct Mine { unsigned* row; unsigned r[4]; } mine{(unsigned*)row, {r0, r1, r2, r3}};
  if ((uintptr_t)row % 16) failed = true;
  warp_does(&mine, [](void** all) {
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 4; ++i) ((Mine*)all[8 * i + l / 4])->row[l % 4] = ((Mine*)all[l])->r[i];
  });
}
inline void multiply_16x8x16(float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  struct Mine { float* c; const unsigned* a; unsigned b[2]; } mine{c, a, {b0, b1}};
  warp_does(&mine, [](void** all) {
    float A[16][16], B[16][8];
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 2; ++i) {
        const Mine& m = *(Mine*)all[l];
        const int g = l / 4, t = l % 4 * 2 + i;
        A[g][t] = half_of(m.a[0], i), A[g + 8][t] = half_of(m.a[1], i);
        A[g][t + 8] = half_of(m.a[2], i), A[g + 8][t + 8] = half_of(m.a[3], i);
        B[t][g] = half_of(m.b[0], i), B[t + 8][g] = half_of(m.b[1], i);
      }
    for (int l = 0; l < 32; ++l)
      for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 16; ++k) ((Mine*)all[l])->c[i] += A[l / 4 + i / 2 * 8][k] * B[k][l % 4 * 2 + i % 2];
  });
}

inline std::mutex barriers;  // blocks of a cluster arrive at each other's
struct Barrier {
  int arrivals = 0, missing = 0, bytes = 0;
  std::atomic<unsigned> phase{0};
  void change(int arrived, int more_bytes) {
    const std::lock_guard<std::mutex> alone(barriers);
    missing -= arrived, bytes += more_bytes;
    if (missing == 0 && bytes == 0) missing = arrivals, phase++;
    if (missing < 0) failed = true;
  }
};
inline void barrier_init(Barrier* b, unsigned n) { b->arrivals = b->missing = n, b->bytes = 0, b->phase = 0; }
inline void barrier_init_fence() {}
inline void barrier_arrive(Barrier* b) { b->change(1, 0); }
inline void barrier_expect(Barrier* b, unsigned bytes) { b->change(1, bytes); }
inline void barrier_wait(Barrier* b, unsigned parity) {
  wait_until([b, parity] { return (b->phase & 1) != (parity & 1); });
}
inline void by_engine(std::function<void()> copy) {
  if (eager) copy();
  else block->engine.push_back(copy);
}

inline void cluster_arrive() { ++block->cluster->arrived; }
inline thread_local long cluster_turns[1024];
inline void cluster_wait() {
  const long all = block->cluster->blocks * (long)blockDim.x * ++cluster_turns[threadIdx.x];
  wait_until([all] { return block->cluster->arrived >= all; });
}
template <typename T>
T* in_block(T* variable, unsigned rank) { return (T*)(block->cluster->bases[rank] + ((char*)variable - &tls_base)); }
inline void cluster_sync() { cluster_arrive(), cluster_wait(); }
inline void barrier_arrive(Barrier* b, unsigned rank) { in_block(b, rank)->change(1, 0); }
inline void warpgroup_sync() { meet(block->warpgroups[threadIdx.x / 128], 128, threadIdx.x % 128, nullptr, [](void**) {}); }
// All of a warp arrive at once, so that their order within it plays no part.
inline void turn_give(int group) { block->turns[group].arrive(256); }
inline void turn_wait(int group) {
  Meeting& m = block->turns[group];
  const long turn = m.turn;
  if (!m.arrive(256)) wait_until([&m, turn] { return m.turn != turn; });
}
inline void store_remote(float* variable, unsigned rank, float value) { *in_block(variable, rank) = value; }

inline void registers_down() {}
inline void registers_up() {}
inline uint64_t operand(const void* p) { return (uint64_t)p; }
// The distance of the next 64 columns lies above the bits of an address.
inline uint64_t operand_by_columns(const void* p, int next_bytes) {
  if ((uintptr_t)p % 1024) failed = true;
  return (uint64_t)p | (uint64_t)(next_bytes >> 4) << 48;
}
inline void product_fence() {}
template <int N>
void registers_fence(float (&)[N]) {}
template <int N>
void registers_fence(unsigned int (&)[N][4]) {}
inline void product_commit() { fiber->products.emplace_back(); }
inline void run_pending(std::vector<std::vector<std::function<void()>>>& groups, int left) {
  while ((int)groups.size() - 1 > left) {
    auto now = groups.front();
    groups.erase(groups.begin());
    for (auto& one : now) one();
  }
}
template <int N>
void product_wait() {  // `.aligned`: the lanes of a warp are together
  run_pending(fiber->products, N);
  __syncwarp();
}
// The bytes of an operand from byte k of row r on: rows of 128 bytes, in groups of eight, with the 128-byte swizzle.
inline const char* in_operand(uint64_t start, int r, int k) {
  const uint64_t at = start + r * 128 + k;
  return (const char*)(at ^ (at >> 7 & 7) << 4);
}
inline float of_bf16(const char* at) { return from_bf16(*(const unsigned short*)at); }
inline float of_e4m3(const char* at) {
  const int bits = *(const unsigned char*)at, power = bits >> 3 & 15, digits = bits & 7;
  const float size = power ? ldexpf(1 + digits / 8.0f, power - 7) : ldexpf(digits / 8.0f, -6);
  return bits & 128 ? -size : size;
}
// D (64 x 2 N) += A (64 x 32 bytes) B^T; without `keep`, D is the product alone.
template <int N, float ELEMENT(const char*), int SIZE>
void multiply_warpgroup(float (&d)[N], uint64_t a, uint64_t b, int keep) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  auto work = [&d, a, b, keep, lane, warp] {
    for (int i = 0; i < N; ++i) {
      if (!keep) d[i] = 0;
      const int r = warp * 16 + lane / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2 + i % 2;
      for (int k = 0; k < 32; k += SIZE) d[i] += ELEMENT(in_operand(a, r, k)) * ELEMENT(in_operand(b, c, k));
    }
  };
  if (eager) work();
  else fiber->products.back().push_back(work);
}
inline void multiply_64x256x16(float (&d)[128], uint64_t a, uint64_t b, int keep = 1) {
  multiply_warpgroup<128, of_bf16, 2>(d, a, b, keep);
}
inline void multiply_64x128x16(float (&d)[64], uint64_t a, uint64_t b, int keep) {
  multiply_warpgroup<64, of_bf16, 2>(d, a, b, keep);
}
// A in registers of the warp's lanes, which are read as late as the product takes place; B in rows of k.
inline void multiply_64x128x16(float (&d)[64], const unsigned int (&a)[4], uint64_t b, int keep) {
  struct Mine { const unsigned* a; const unsigned* all[32]; } mine{a};
  warp_does(&mine, [](void** all) {
    for (int l = 0; l < 32; ++l)
      for (int from = 0; from < 32; ++from) ((Mine*)all[l])->all[from] = ((Mine*)all[from])->a;
  });
  const uint64_t start = b & 0xffffffffffff, next = b >> 48 << 4;
  const int lane = threadIdx.x % 32;
  auto work = [&d, mine, start, next, keep, lane] {
    for (int i = 0; i < 64; ++i) {
      if (!keep) d[i] = 0;
      const int high = i / 2 % 2, c = i / 4 * 8 + lane % 4 * 2 + i % 2;
      for (int k = 0; k < 16; ++k)
        d[i] += half_of(mine.all[lane / 4 * 4 + k / 2 % 4][high + k / 8 * 2], k % 2) *
                of_bf16(in_operand(start + c / 64 * next, k, c % 64 * 2));
    }
  };
  if (eager) work(), __syncwarp();  // before a lane changes what others read
  else fiber->products.back().push_back(work);
}
template <int N>
void multiply_e4m3(float (&d)[N], uint64_t a, uint64_t b, int keep) {
  multiply_warpgroup<N, of_e4m3, 1>(d, a, b, keep);
}

// --- aiperf/bulk.cuh
inline void async_copy16(void* to, const void* from, int bytes = 16) {
  auto copy = [=] {
    char sixteen[16] = {0};
    memcpy(sixteen, from, bytes);
    memcpy(to, sixteen, 16);
  };
  if (((uintptr_t)to | (uintptr_t)from) % 16) failed = true;
  if (eager) copy();
  else fiber->groups.back().push_back(copy);
}
inline void async_commit() { fiber->groups.emplace_back(); }
template <int N>
void async_wait() { run_pending(fiber->groups, N); }

// A matrix of elements of one or two bytes, and its box.
struct CUtensorMap {
  struct Matrix { const char* base; long rows, columns, pitch_bytes, box_rows, box_columns, swizzle_bytes, size; }* matrix;
};
// Where the swizzle puts element (r, c) of a box at `base`.
inline char* in_box(const CUtensorMap::Matrix& m, const void* base, long r, long c) {
  const uintptr_t at = (uintptr_t)base + (r * m.box_columns + c) * m.size;
  return (char*)(at ^ ((at >> 7) & (m.swizzle_bytes / 16 - 1)) << 4);
}
inline void tensor_load_all(void* to, const CUtensorMap* map, int x, int y, Barrier* barrier, unsigned short mask) {
  const CUtensorMap::Matrix m = *map->matrix;
  by_engine([=] {
    for (int rank = 0; rank < block->cluster->blocks; ++rank) {
      if (!(mask >> rank & 1)) continue;
      for (long r = 0; r < m.box_rows; ++r)
        for (long c = 0; c < m.box_columns; ++c) {
          unsigned short v = 0;
          if (y + r < m.rows && x + c < m.columns)
            memcpy(&v, m.base + (y + r) * m.pitch_bytes + (x + c) * m.size, m.size);
          memcpy(in_block(in_box(m, to, r, c), rank), &v, m.size);
        }
      in_block(barrier, rank)->change(0, -(int)(m.box_rows * m.box_columns * m.size));
    }
  });
  if ((uintptr_t)to % 1024) failed = true;
}
inline void tensor_load(void* to, const CUtensorMap* map, int x, int y, Barrier* barrier) {
  tensor_load_all(to, map, x, y, barrier, 1 << block->rank);
}
// A box of matrix z of several, one behind another; the map is that of the first.
inline void tensor_load(void* to, const CUtensorMap* map, int x, int y, int z, Barrier* barrier) {
  CUtensorMap::Matrix m = *map->matrix;
  m.base += z * m.rows * m.pitch_bytes;
  const CUtensorMap moved{&m};
  tensor_load(to, &moved, x, y, barrier);
}
inline void fence_for_copy_engine() {}
inline void tensor_store(const CUtensorMap* map, int x, int y, const void* from) {
  const CUtensorMap::Matrix m = *map->matrix;
  auto copy = [=] {
    for (long r = 0; r < m.box_rows && y + r < m.rows; ++r)
      for (long c = 0; c < m.box_columns && x + c < m.columns; ++c)
        memcpy((char*)m.base + (y + r) * m.pitch_bytes + (x + c) * m.size, in_box(m, from, r, c), m.size);
  };
  if ((uintptr_t)from % 1024) failed = true;
  if (eager) copy();
  else fiber->stores.back().push_back(copy);
}
inline void bulk_commit() { fiber->stores.emplace_back(); }
template <int N>
void bulk_wait_read() { run_pending(fiber->stores, N); }
template <int N>
void bulk_wait() { run_pending(fiber->stores, N); }

// --- a launch
struct Job {
  void (*kernel)(long, long, long, long, long, long, long, long, long, long, long, long);
  const long* args;
};
inline thread_local Job job;
inline void enter() {
  const long* a = job.args;
  job.kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
  if (fiber->groups.size() > 1 && eager == false) run_pending(fiber->groups, 0);
  if (!eager && fiber->stores.size() > 1) failed = true;  // the shared memory that they read ends with the block
  fiber->done = true;
  leave();
}
inline void resume(Fiber& f) {
  if (_setjmp(block->at)) return;
  if (f.begun) _longjmp(f.at, 1);
  f.begun = true;
  setcontext(&f.context);
}
inline void run_block(Job which, int number, int rank, Cluster* cluster, unsigned seed) {
  Block here;
  block = &here, job = which, here.cluster = cluster, here.rank = rank;
  cluster->bases[rank] = &tls_base;
  memset(cluster_turns, 0, sizeof cluster_turns);
  here.random.seed(seed * 7919 + number);
  here.fibers.resize(blockDim.x);
  constexpr size_t STACK = 1 << 17;
  for (unsigned i = 0; i < blockDim.x; ++i) {
    Fiber& f = here.fibers[i];
    f.id = i, f.stack.reset(new char[STACK]);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get(), f.context.uc_stack.ss_size = STACK, f.context.uc_link = nullptr;
    makecontext(&f.context, enter, 0);
  }
  blockIdx = {number % gridDim.x, number / gridDim.x, 0};
  for (unsigned left = blockDim.x; left && !failed;) {
    bool moved = false;
    const long before = cluster->steps;
    const unsigned warps = blockDim.x / 32, first = here.random() % warps;
    for (unsigned w = 0; w < warps; ++w)
      for (unsigned l = 0; l < 32; ++l) {
        Fiber& f = here.fibers[(w + first) % warps * 32 + l];
        if (f.done || (f.ready && !f.ready())) continue;
        f.ready = nullptr, fiber = &f, threadIdx = {(unsigned)f.id, 0, 0}, moved = true;
        resume(f);
        left -= f.done;
      }
    if (!here.engine.empty() && (!moved || here.random() % 4 == 0)) {
      // In any order: the engine promises none.
      std::swap(here.engine[here.random() % here.engine.size()], here.engine.back());
      auto copy = here.engine.back();
      here.engine.pop_back();
      copy(), moved = true;
    }
    if (moved) {
      cluster->steps++;
      continue;
    }
    cluster->stuck_at[rank] = before;
    if (cluster->is_stuck()) failed = true;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  cluster->stuck_at[rank] = -1;
  for (auto& copy : here.engine) copy();
}

// The blocks of a cluster run at once; where `all_at_once`, those of the grid do. Returns whether the launch ended
// well.
extern "C" __global__ int emulate(void* kernel, const long* args, int grid_x, int grid_y, int threads, int cluster,
                                  int is_eager, int all_at_once, unsigned seed) {
  gridDim = {(unsigned)grid_x, (unsigned)grid_y, 1}, blockDim = {(unsigned)threads, 1, 1};
  eager = is_eager, failed = false;
  Job which{(decltype(Job::kernel))kernel, args};
  std::vector<std::thread> running;
  std::vector<std::unique_ptr<Cluster>> clusters;
  for (int first = 0; first < grid_x * grid_y; first += cluster) {
    clusters.emplace_back(new Cluster{cluster});
    Cluster* const one = clusters.back().get();
    one->bases.resize(cluster);
    for (int rank = 0; rank < cluster; ++rank)
      running.emplace_back([=] { run_block(which, first + rank, rank, one, seed); });
    if (all_at_once) continue;
    for (auto& thread : running) thread.join();
    running.clear();
  }
  for (auto& thread : running) thread.join();
  return !failed;
}
