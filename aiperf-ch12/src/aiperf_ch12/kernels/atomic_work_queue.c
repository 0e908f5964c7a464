// Paths of particles in the lanes of vectors: the code of the GPU's warps, for the threads of a processor.
#include <stdint.h>

#define STEP 0.0078125f  // 1 / 128
#define LANES 8

typedef float vec __attribute__((vector_size(4 * LANES)));

// The particles of a vector's lanes, and how many steps each has left: 0 when it is done, less for a lane without one.
typedef struct {
  vec place, speed;
  int64_t particle[LANES], left[LANES];
} lanes;

static lanes without_particles(void) {
  lanes all = {0};
  for (int lane = 0; lane < LANES; ++lane) all.left[lane] = -1;
  return all;
}

static void put(lanes* all, int lane, int64_t particle, const float* x, const int32_t* life) {
  all->place[lane] = x[particle], all->speed[lane] = 0;
  all->particle[lane] = particle, all->left[lane] = life[particle];
}

// Go on until the first of the particles is done; returns whether there is one at all. Steps are taken in all lanes.
static int advance(lanes* all) {
  int64_t count = INT64_MAX;
  for (int lane = 0; lane < LANES; ++lane)
    if (all->left[lane] > 0 && all->left[lane] < count) count = all->left[lane];
  if (count == INT64_MAX) return 0;
  vec place = all->place, speed = all->speed;
  for (int64_t step = 0; step < count; ++step) {
    speed -= STEP * (place * place * place + place);
    place += STEP * speed;
  }
  all->place = place, all->speed = speed;
  for (int lane = 0; lane < LANES; ++lane) all->left[lane] -= count;
  return 1;
}

// Neighbours share a vector until the last of them is done. Each thread has as many particles.
void by_stride(const float* x, const int32_t* life, float* out, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < n; first += LANES) {
    lanes all = without_particles();
    for (int lane = 0; lane < LANES && first + lane < n; ++lane) put(&all, lane, first + lane, x, life);
    while (advance(&all))
      for (int lane = 0; lane < LANES; ++lane)
        if (all.left[lane] == 0) out[first + lane] = all.place[lane];
  }
}

// A lane that is done takes the next particle, of those that its thread takes from the counter at once.
void from_chunks(const float* x, const int32_t* life, const int32_t* order, float* out, int64_t n, int64_t chunk) {
  int64_t next = 0;
#pragma omp parallel
  {
    lanes all = without_particles();
    int64_t at = 0, end = 0;
    do
      for (int lane = 0; lane < LANES; ++lane) {
        if (all.left[lane] > 0) continue;
        if (all.left[lane] == 0) out[all.particle[lane]] = all.place[lane];
        if (at == end) {
          at = __atomic_fetch_add(&next, chunk, __ATOMIC_RELAXED);
          at = at < n ? at : n, end = n - at < chunk ? n : at + chunk;
        }
        if (at < end) put(&all, lane, order[at++], x, life);
      }
    while (advance(&all));
  }
}
