// Steps of out = CENTRE u + SIDE (the six neighbours of u) on a box of nx x ny x nz floats, x the fastest; zeros
// outside.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CENTRE 0.4f
#define SIDE 0.1f

// A row of a plane: the rows around it may be missing, at the faces of the box.
static void row(const float* u, const float* south, const float* north, const float* below, const float* above,
                float* restrict out, int64_t nx) {
  for (int64_t x = 0; x < nx; ++x) {
    const float west = x > 0 ? u[x - 1] : 0, east = x + 1 < nx ? u[x + 1] : 0;
    out[x] = CENTRE * u[x] + SIDE * (((west + east) + (south[x] + north[x])) + (below[x] + above[x]));
  }
}

// A plane; `zeros` is a row of them, in the place of rows outside.
static void plane(const float* u, const float* below, const float* above, float* out, const float* zeros, int64_t nx,
                  int64_t ny) {
  for (int64_t y = 0; y < ny; ++y)
    row(u + y * nx, y > 0 ? u + (y - 1) * nx : zeros, y + 1 < ny ? u + (y + 1) * nx : zeros,
        below ? below + y * nx : zeros, above ? above + y * nx : zeros, out + y * nx, nx);
}

static float* zeros_of(int64_t n) { return calloc((size_t)n, sizeof(float)); }

// A step over the whole box, which every step reads from memory and writes to it.
void one_step(const float* restrict u, float* restrict out, int64_t nx, int64_t ny, int64_t nz) {
  const int64_t size = nx * ny;
  float* zeros = zeros_of(nx);
#pragma omp parallel for schedule(static)
  for (int64_t z = 0; z < nz; ++z)
    plane(u + z * size, z > 0 ? u + (z - 1) * size : NULL, z + 1 < nz ? u + (z + 1) * size : NULL, out + z * size,
          zeros, nx, ny);
  free(zeros);
}

// Two steps in one pass: as soon as three planes have made the first, the one in the middle makes the second. They lie
// in a ring that stays in the cache. Cores take slabs of planes, and each makes one plane more on either side for
// itself.
void two_steps(const float* restrict u, float* restrict out, int64_t nx, int64_t ny, int64_t nz, int64_t slabs) {
  const int64_t size = nx * ny;
#pragma omp parallel for schedule(static)
  for (int64_t slab = 0; slab < slabs; ++slab) {
    const int64_t begin = slab * nz / slabs, end = (slab + 1) * nz / slabs;
    float *ring = malloc((size_t)(3 * size) * sizeof(float)), *zeros = zeros_of(nx);
    for (int64_t z = begin - 1; z <= end; ++z) {
      if (z >= 0 && z < nz)
        plane(u + z * size, z > 0 ? u + (z - 1) * size : NULL, z + 1 < nz ? u + (z + 1) * size : NULL,
              ring + (z + 3) % 3 * size, zeros, nx, ny);
      const int64_t at = z - 1;  // its neighbours are in the ring now
      if (at >= begin && at < end)
        plane(ring + at % 3 * size, at > 0 ? ring + (at + 2) % 3 * size : NULL,
              at + 1 < nz ? ring + (at + 1) % 3 * size : NULL, out + at * size, zeros, nx, ny);
    }
    free(ring), free(zeros);
  }
}
