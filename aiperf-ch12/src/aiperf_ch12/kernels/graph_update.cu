// A step of a recurrence as a chain of short kernels: three of them read or write a row that is new in each step. Those have
// a second form, which finds the row in a block of memory: [drive, out, earlier, step] of 8 bytes each.
#define THREADS 256

__device__ __forceinline__ long long place() { return blockIdx.x * (long long)THREADS + threadIdx.x; }

__device__ __forceinline__ void take_row(float* to, const float* from, const float* row, long long n) {
  const long long i = place();
  if (i < n) to[i] = 0.5f * from[i] + row[i];
}
__device__ __forceinline__ void put_row(const float* from, float* row, long long n) {
  const long long i = place();
  if (i < n) row[i] = from[i];
}
__device__ __forceinline__ void recall_row(float* to, const float* from, const float* row, long long n) {
  const long long i = place();
  if (i < n) to[i] = from[i] + 0.25f * row[i];
}

extern "C" {
__global__ void __launch_bounds__(THREADS) mix(float* to, const float* from, long long n) {
  const long long i = place();
  if (i < n) to[i] = 0.75f * from[i] + 0.25f * from[i + 1 < n ? i + 1 : 0];
}

__global__ void __launch_bounds__(THREADS) take(float* to, const float* from, const float* row, long long n) {
  take_row(to, from, row, n);
}
__global__ void __launch_bounds__(THREADS) put(const float* from, float* row, long long n) { put_row(from, row, n); }
__global__ void __launch_bounds__(THREADS) recall(float* to, const float* from, const float* row, long long n) {
  recall_row(to, from, row, n);
}

__global__ void __launch_bounds__(THREADS) take_of(float* to, const float* from, const long long* block, long long n) {
  take_row(to, from, reinterpret_cast<const float*>(block[0]), n);
}
__global__ void __launch_bounds__(THREADS) put_of(const float* from, const long long* block, long long n) {
  put_row(from, reinterpret_cast<float*>(block[1]), n);
}
__global__ void __launch_bounds__(THREADS) recall_of(float* to, const float* from, const long long* block, long long n) {
  recall_row(to, from, reinterpret_cast<const float*>(block[2]), n);
}

// One thread: the block of a step as the host knows it.
__global__ void point(long long* block, const float* drive, const float* out, const float* earlier) {
  block[0] = reinterpret_cast<long long>(drive);
  block[1] = reinterpret_cast<long long>(out);
  block[2] = reinterpret_cast<long long>(earlier);
}
// The block of the next step, which follows from the step's number; by one thread.
__global__ void count(long long* block, const float* drive, const float* log, long long n) {
  if (place()) return;
  const long long step = block[3]++;
  block[0] = reinterpret_cast<long long>(drive + step * n);
  block[1] = reinterpret_cast<long long>(log + step * n);
  block[2] = reinterpret_cast<long long>(log + step / 2 * n);
}
}
