// v = DAMPING v + KICK for three of a particle's sixteen floats, in place; only where those three lie differs.
#include <stdint.h>

#define FLOATS 16
#define FIRST 4  // the fields that change are 4, 5 and 6
#define FIELDS 3
#define DAMPING 0.5f
#define KICK 0.25f

// A particle is a cache line of 64 bytes, of which 12 are used.
void structures(float* restrict structures_ptr, int64_t count) {
#pragma omp parallel for
  for (int64_t i = 0; i < count; ++i)
    for (int f = FIRST; f < FIRST + FIELDS; ++f)
      structures_ptr[FLOATS * i + f] = DAMPING * structures_ptr[FLOATS * i + f] + KICK;
}

// Every byte of a line that is fetched is used. The compiler makes this SIMD.
void arrays(float* restrict arrays_ptr, int64_t count) {
#pragma omp parallel
  for (int f = FIRST; f < FIRST + FIELDS; ++f) {
    float* field = arrays_ptr + f * count;
#pragma omp for simd nowait
    for (int64_t i = 0; i < count; ++i) field[i] = DAMPING * field[i] + KICK;
  }
}

// Tiles of 32 particles, within each a structure of arrays: 128 bytes of a field lie together.
void tiles(float* restrict tiles_ptr, int64_t count) {
#pragma omp parallel for
  for (int64_t tile = 0; tile < count / 32; ++tile) {
    float* own = tiles_ptr + tile * 32 * FLOATS + 32 * FIRST;
    for (int i = 0; i < 32 * FIELDS; ++i) own[i] = DAMPING * own[i] + KICK;
  }
}
