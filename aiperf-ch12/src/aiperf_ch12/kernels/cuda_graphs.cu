// A chain of short element-wise kernels. All take the same arguments, so that one loop can launch them.

// Before a kernel touches what the one before it has written. Where a graph's edge lets it start early, it waits here; what
// comes before (its blocks being placed, the code above) then overlaps the end of the other. Everywhere else it does nothing.
__device__ __forceinline__ void await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#define PLACE (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void begin(float* x, float* total, const float* start, const float* drive, float weight, int n) {
  int i = PLACE;
  await_previous();
  if (i < n) x[i] = start[i], total[i] = 0;
}

extern "C" __global__ void push(float* x, float* total, const float* start, const float* drive, float weight, int n) {
  int i = PLACE;
  await_previous();
  if (i < n) x[i] += weight * drive[i];
}

extern "C" __global__ void wave(float* x, float* total, const float* start, const float* drive, float weight, int n) {
  int i = PLACE;
  await_previous();
  if (i < n) x[i] = sinf(x[i]);
}

extern "C" __global__ void grow(float* x, float* total, const float* start, const float* drive, float weight, int n) {
  int i = PLACE;
  await_previous();
  if (i < n) x[i] *= 0.75f;
}

extern "C" __global__ void squash(float* x, float* total, const float* start, const float* drive, float weight, int n) {
  int i = PLACE;
  await_previous();
  if (i < n) x[i] = tanhf(x[i]);
}

extern "C" __global__ void pull(float* x, float* total, const float* start, const float* drive, float weight, int n) {
  int i = PLACE;
  await_previous();
  if (i < n) x[i] -= 0.5f * drive[i];
}

extern "C" __global__ void add(float* x, float* total, const float* start, const float* drive, float weight, int n) {
  int i = PLACE;
  await_previous();
  if (i < n) total[i] += x[i];
}

// All of it, with the values in registers: of each element one read of what is given, and one write of the total.
extern "C" __global__ void whole_chain(float* out, const float* start, const float* drive, const float* weights, int steps,
                                       int n) {
  int i = PLACE;
  if (i >= n) return;
  float x = start[i], d = drive[i], sum = 0;
  for (int step = 0; step < steps; ++step) {
    x = tanhf(0.75f * sinf(x + weights[step] * d)) - 0.5f * d;
    sum += x;
  }
  out[i] = sum;
}
