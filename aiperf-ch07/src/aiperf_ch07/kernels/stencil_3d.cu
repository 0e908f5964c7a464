// One step of out = CENTRE u + SIDE (the six neighbours of u) on a box of nx x ny x nz floats, x the fastest; zeros
// outside.
#include "aiperf/bulk.cuh"

#define CENTRE 0.4f
#define SIDE 0.1f

__device__ __forceinline__ float step_of(float centre, float west, float east, float south, float north, float below,
                                         float above) {
  return fmaf(CENTRE, centre, SIDE * (((west + east) + (south + north)) + (below + above)));
}

// A thread a point, which reads all seven values from global memory: what neighbours read too is caught by the caches,
// as far as it is still there.
extern "C" __global__ void direct(const float* __restrict__ u, float* __restrict__ out, int nx, int ny, int nz) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x >= nx || y >= ny) return;
  const long long plane = (long long)nx * ny, at = z * plane + (long long)y * nx + x;
  out[at] = step_of(u[at], x > 0 ? u[at - 1] : 0, x + 1 < nx ? u[at + 1] : 0, y > 0 ? u[at - nx] : 0,
                    y + 1 < ny ? u[at + nx] : 0, z > 0 ? u[at - plane] : 0, z + 1 < nz ? u[at + plane] : 0);
}

// A point, and four points in a row; zeros outside. `x` of four points is a multiple of four and not negative.
__device__ __forceinline__ float point(const float* __restrict__ u, int x, int y, int z, int nx, int ny, int nz) {
  const bool within = x >= 0 && x < nx && y >= 0 && y < ny && z >= 0 && z < nz;
  return within ? u[((long long)z * ny + y) * nx + x] : 0.0f;
}
__device__ __forceinline__ float4 four(const float* __restrict__ u, int x, int y, int z, int nx, int ny, int nz) {
  float4 v = make_float4(0, 0, 0, 0);
  if (x >= nx || y < 0 || y >= ny || z < 0 || z >= nz) return v;
  const float* from = u + ((long long)z * ny + y) * nx + x;
  if (nx % 4 == 0) return *reinterpret_cast<const float4*>(from);
  v.x = from[0];
  if (x + 1 < nx) v.y = from[1];
  if (x + 2 < nx) v.z = from[2];
  if (x + 3 < nx) v.w = from[3];
  return v;
}
__device__ __forceinline__ void store_four(float* __restrict__ out, int x, int y, int z, int nx, int ny, float4 v) {
  if (x >= nx || y >= ny) return;
  float* to = out + ((long long)z * ny + y) * nx + x;
  if (nx % 4 == 0) {
    *reinterpret_cast<float4*>(to) = v;
    return;
  }
  to[0] = v.x;
  if (x + 1 < nx) to[1] = v.y;
  if (x + 2 < nx) to[2] = v.z;
  if (x + 3 < nx) to[3] = v.w;
}
// A step of four points: in x they are neighbours of each other, but for the two ends.
__device__ __forceinline__ float4 step_of_four(float4 centre, float west, float east, float4 south, float4 north,
                                               float4 below, float4 above) {
  return make_float4(step_of(centre.x, west, centre.y, south.x, north.x, below.x, above.x),
                     step_of(centre.y, centre.x, centre.z, south.y, north.y, below.y, above.y),
                     step_of(centre.z, centre.y, centre.w, south.z, north.z, below.z, above.z),
                     step_of(centre.w, centre.z, east, south.w, north.w, below.w, above.w));
}

// Four points a thread: seven loads for them, where four threads made 28.
extern "C" __global__ void wide(const float* __restrict__ u, float* __restrict__ out, int nx, int ny, int nz) {
  const int x = 4 * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  const float4 v = step_of_four(four(u, x, y, z, nx, ny, nz), point(u, x - 1, y, z, nx, ny, nz),
                                point(u, x + 4, y, z, nx, ny, nz), four(u, x, y - 1, z, nx, ny, nz),
                                four(u, x, y + 1, z, nx, ny, nz), four(u, x, y, z - 1, nx, ny, nz),
                                four(u, x, y, z + 1, nx, ny, nz));
  store_four(out, x, y, z, nx, ny, v);
}

// A column of four points a thread, which goes along z: what is below and above stays in registers, and the loads of
// two planes are under way. Neighbours in the plane are in L1, for which other threads of the block have loaded them.
extern "C" __global__ void marching(const float* __restrict__ u, float* __restrict__ out, int nx, int ny, int nz,
                                    int planes) {
  const int x = 4 * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y * blockDim.y + threadIdx.y;
  const int z_begin = blockIdx.z * planes, z_end = min(nz, z_begin + planes);
  float4 below = four(u, x, y, z_begin - 1, nx, ny, nz), centre = four(u, x, y, z_begin, nx, ny, nz);
  float4 above = four(u, x, y, z_begin + 1, nx, ny, nz), next = four(u, x, y, z_begin + 2, nx, ny, nz);
  for (int z = z_begin; z < z_end; ++z) {
    const float4 later = four(u, x, y, z + 3 <= z_end ? z + 3 : nz, nx, ny, nz);
    const float4 v = step_of_four(centre, point(u, x - 1, y, z, nx, ny, nz), point(u, x + 4, y, z, nx, ny, nz),
                                  four(u, x, y - 1, z, nx, ny, nz), four(u, x, y + 1, z, nx, ny, nz), below, above);
    store_four(out, x, y, z, nx, ny, v);
    below = centre, centre = above, above = next, next = later;
  }
}

#if __CUDA_ARCH__ >= 900
// TMA brings planes with their rims to a ring in shared memory; outside of the box it writes zeros. A
// thread makes four points of a tile of 64 x 16. The box of a plane begins four floats before the tile, so that the
// pieces of threads stay aligned; it needs rows of a multiple of 16 bytes.
#define TX 64
#define TY 16
#define BOX_X (TX + 8)
#define BOX_Y (TY + 2)
#define BOX_BYTES (BOX_X * BOX_Y * 4)
#define STAGE ((BOX_BYTES + 127) / 128 * 128 / 4)  // floats
#define STAGES 6

extern "C" __global__ void __launch_bounds__(TX / 4 * TY)
    tensor_planes(const __grid_constant__ CUtensorMap u, float* __restrict__ out, int nx, int ny, int nz, int planes) {
  __shared__ __align__(128) float ring[STAGES * STAGE];
  __shared__ __align__(8) Barrier full[STAGES];
  const int tx = threadIdx.x % (TX / 4), ty = threadIdx.x / (TX / 4);
  const int x0 = blockIdx.x * TX, y0 = blockIdx.y * TY, z_begin = blockIdx.z * planes;
  const int count = min(nz, z_begin + planes) - z_begin + 2;  // planes to load: one more below, and one above
  auto load = [&](int i) {
    if (threadIdx.x != 0 || i >= count) return;
    barrier_expect(full + i % STAGES, BOX_BYTES);
    tensor_load(ring + i % STAGES * STAGE, &u, x0 - 4, y0 - 1, z_begin - 1 + i, full + i % STAGES);
  };
  auto arrived = [&](int i) { barrier_wait(full + i % STAGES, i / STAGES % 2); };
  // Four floats of this thread in the i-th plane, `dy` rows further on.
  auto mine = [&](int i, int dy) {
    return reinterpret_cast<const float4*>(ring + i % STAGES * STAGE)[(ty + 1 + dy) * (BOX_X / 4) + tx + 1];
  };
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) barrier_init(full + s, 1);
    barrier_init_fence();
  }
  __syncthreads();
  for (int i = 0; i < STAGES; ++i) load(i);
  arrived(0), arrived(1);
  float4 below = mine(0, 0), centre = mine(1, 0);
  for (int i = 1; i + 1 < count; ++i) {
    arrived(i + 1);
    __syncthreads();  // all have done with plane i - 1, whose place is free
    load(i - 1 + STAGES);
    const float4 above = mine(i + 1, 0);
    const float* row = ring + i % STAGES * STAGE + (ty + 1) * BOX_X + 4 * (tx + 1);
    store_four(out, x0 + 4 * tx, y0 + ty, z_begin - 1 + i, nx, ny,
               step_of_four(centre, row[-1], row[4], mine(i, -1), mine(i, 1), below, above));
    below = centre, centre = above;
  }
}
#endif

// Two steps in one pass over memory: a block computes the first step on a tile with a rim of one, and the second
// inside. Threads cover that tile and its own rim, so of 32 x 32 of them the inner 28 x 28 write; the outer ones only
// lend.
#define SIDES 32
#define INNER (SIDES - 4)

extern "C" __global__ void __launch_bounds__(SIDES* SIDES)
    two_steps(const float* __restrict__ u, float* __restrict__ out, int nx, int ny, int nz, int planes) {
  __shared__ float tile[2][SIDES][SIDES], stepped[2][SIDES][SIDES];  // of u, and of u after one step; planes take turns
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int x = (int)blockIdx.x * INNER + tx - 2, y = (int)blockIdx.y * INNER + ty - 2;
  const long long plane = (long long)nx * ny;
  const bool within = x >= 0 && x < nx && y >= 0 && y < ny;
  const bool has_ring = tx > 0 && tx < SIDES - 1 && ty > 0 && ty < SIDES - 1;
  const bool writes = within && tx > 1 && tx < SIDES - 2 && ty > 1 && ty < SIDES - 2;
  auto value = [&](int z) { return within && z >= 0 && z < nz ? u[z * plane + (long long)y * nx + x] : 0.0f; };

  const int z_begin = blockIdx.z * planes, z_end = min(nz, z_begin + planes);
  float below = value(z_begin - 2), centre = value(z_begin - 1), above = value(z_begin);  // of u
  float stepped_below = 0, stepped_centre = 0;                    // of u after one step
  // In each round u is stepped at plane z, and what was stepped before it a second time, at plane z - 1.
  for (int z = z_begin - 1; z <= z_end; ++z) {
    const float next = z < z_end ? value(z + 2) : 0.0f;  // under way while this plane is computed
    float(*now)[SIDES] = tile[z & 1];
    float(*then)[SIDES] = stepped[(z - 1) & 1];
    now[ty][tx] = centre;
    then[ty][tx] = stepped_centre;
    __syncthreads();
    float stepped_above = 0;  // outside of the box it stays zero, whatever its neighbours are
    if (has_ring && within && z >= 0 && z < nz)
      stepped_above = step_of(centre, now[ty][tx - 1], now[ty][tx + 1], now[ty - 1][tx], now[ty + 1][tx], below, above);
    if (writes && z - 1 >= z_begin)
      out[(z - 1) * plane + (long long)y * nx + x] =
          step_of(stepped_centre, then[ty][tx - 1], then[ty][tx + 1], then[ty - 1][tx], then[ty + 1][tx], stepped_below,
                  stepped_above);
    below = centre, centre = above, above = next;
    stepped_below = stepped_centre, stepped_centre = stepped_above;
  }
}
