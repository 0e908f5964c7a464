// One step of out = CENTRE u + SIDE (the six neighbours of u) on a box of nx x ny x nz floats, x the fastest; zeros outside.
#define CENTRE 0.4f
#define SIDE 0.1f

__device__ __forceinline__ float step_of(float centre, float west, float east, float south, float north, float below,
                                         float above) {
  return fmaf(CENTRE, centre, SIDE * (((west + east) + (south + north)) + (below + above)));
}

// A thread a point, which reads all seven values from global memory: what neighbours read too is caught by the caches, as
// far as it is still there.
extern "C" __global__ void direct(const float* __restrict__ u, float* __restrict__ out, int nx, int ny, int nz) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x >= nx || y >= ny) return;
  const long long plane = (long long)nx * ny, at = z * plane + (long long)y * nx + x;
  out[at] = step_of(u[at], x > 0 ? u[at - 1] : 0, x + 1 < nx ? u[at + 1] : 0, y > 0 ? u[at - nx] : 0,
                    y + 1 < ny ? u[at + nx] : 0, z > 0 ? u[at - plane] : 0, z + 1 < nz ? u[at + plane] : 0);
}

// A column of points a thread: it goes along z and keeps what is below and above it in registers. The plane in between
// lies in shared memory for the neighbours in x and y. Each value is read from global memory once, but for the rims.
#define TX 32
#define TY 16

extern "C" __global__ void __launch_bounds__(TX* TY)
    marching(const float* __restrict__ u, float* __restrict__ out, int nx, int ny, int nz, int planes) {
  __shared__ float tile[2][TY + 2][TX + 2];  // two planes take turns, so that one barrier a plane is enough
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int x = blockIdx.x * TX + tx, y = blockIdx.y * TY + ty;
  const int z_end = min(nz, (int)(blockIdx.z + 1) * planes);
  const long long plane = (long long)nx * ny;
  const bool mine = x < nx && y < ny;
  auto value = [&](int at_x, int at_y, int z) {
    const bool within = at_x >= 0 && at_x < nx && at_y >= 0 && at_y < ny && z >= 0 && z < nz;
    return within ? u[z * plane + (long long)at_y * nx + at_x] : 0.0f;
  };
  int z = blockIdx.z * planes;
  float below = value(x, y, z - 1), centre = value(x, y, z), above;
  for (; z < z_end; ++z) {
    above = value(x, y, z + 1);
    float(*now)[TX + 2] = tile[z % 2];
    now[ty + 1][tx + 1] = centre;
    // The rim, by the threads at the edges of the block.
    if (tx == 0) now[ty + 1][0] = value(x - 1, y, z);
    if (tx == TX - 1) now[ty + 1][TX + 1] = value(x + 1, y, z);
    if (ty == 0) now[0][tx + 1] = value(x, y - 1, z);
    if (ty == TY - 1) now[TY + 1][tx + 1] = value(x, y + 1, z);
    __syncthreads();
    if (mine)
      out[z * plane + (long long)y * nx + x] = step_of(centre, now[ty + 1][tx], now[ty + 1][tx + 2], now[ty][tx + 1],
                                                       now[ty + 2][tx + 1], below, above);
    below = centre, centre = above;
  }
}

// Two steps in one pass over memory: a block computes the first step on a tile with a rim of one, and the second inside.
// Threads cover that tile and its own rim, so of 32 x 32 of them the inner 28 x 28 write; the outer ones only lend.
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
  float below = value(z_begin - 2), centre = value(z_begin - 1);  // of u
  float stepped_below = 0, stepped_centre = 0;                    // of u after one step
  // In each round u is stepped at plane z, and what was stepped before it a second time, at plane z - 1.
  for (int z = z_begin - 1; z <= z_end; ++z) {
    const float above = value(z + 1);
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
    below = centre, centre = above;
    stepped_below = stepped_centre, stepped_centre = stepped_above;
  }
}
