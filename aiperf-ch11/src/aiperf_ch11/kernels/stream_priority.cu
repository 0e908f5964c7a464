// Rounds on a spring that gets stiffer, four dependent instructions each, by blocks that last as long as they have rounds.
#define THREADS 128
#define ROUND 0.0078125f  // 1 / 128

// Begins from x times a factor, or goes on from the places and speeds that another launch has left.
extern "C" __global__ void __launch_bounds__(THREADS)
    rounds(float* places, float* speeds, const float* x, float factor, int begins, int count, long long n) {
  const long long i = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (i >= n) return;
  float place = begins ? x[i] * factor : places[i], speed = begins ? 0 : speeds[i];
#pragma unroll 4
  for (int round = 0; round < count; ++round) {
    speed = fmaf(-ROUND, fmaf(place * place, place, place), speed);
    place = fmaf(ROUND, speed, place);
  }
  places[i] = place, speeds[i] = speed;
}
