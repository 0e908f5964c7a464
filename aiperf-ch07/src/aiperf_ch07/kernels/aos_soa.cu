// v = DAMPING v + KICK for three of a particle's sixteen floats, in place; only where those three lie differs.
#define FLOATS 16
#define FIRST 4   // the fields that change are 4, 5 and 6
#define FIELDS 3
#define DAMPING 0.5f
#define KICK 0.25f

__device__ float updated(float v) { return fmaf(DAMPING, v, KICK); }

// Array of structures, a thread a particle: neighbouring lanes are 64 bytes apart, so each access of a warp opens 32
// sectors of 32 bytes, for 12 bytes of use in each.
extern "C" __global__ void structures(float* __restrict__ structures_ptr, long long count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
#pragma unroll
  for (int f = FIRST; f < FIRST + FIELDS; ++f) structures_ptr[FLOATS * i + f] = updated(structures_ptr[FLOATS * i + f]);
}

// The same layout, where it is not ours to change. A warp's 32 particles are 2 KiB in a row: it brings them into
// shared memory by neighbouring 16-byte pieces, and carries back the piece with the three fields. A quarter of what
// it loads is used, and it fetches more sectors than `structures`: all of them.
extern "C" __global__ void staged(float* __restrict__ structures_ptr, long long count) {
  extern __shared__ float4 tile[];  // 4 pieces a particle; the piece p of particle i lies at 4 i + (p ^ (i / 2) % 4)
  const long long first = blockIdx.x * (long long)blockDim.x;
  const int here = (int)min((long long)blockDim.x, count - first);
  const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
  float4* pieces = reinterpret_cast<float4*>(structures_ptr + FLOATS * first);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    int at = 32 * k + lane, i = warp + at / 4, p = at % 4;
    if (i < here) tile[4 * i + (p ^ (i / 2) % 4)] = pieces[4 * i + p];
  }
  __syncwarp();
  int i = warp + lane;
  float4 v;
  if (i < here) {
    v = tile[4 * i + (1 ^ (i / 2) % 4)];
    v.x = updated(v.x), v.y = updated(v.y), v.z = updated(v.z);
    pieces[4 * i + 1] = v;
  }
}

// Structure of arrays: the lanes of a warp read and write 128 bytes in a row, of which every byte is used.
extern "C" __global__ void arrays(float* __restrict__ arrays_ptr, long long count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
#pragma unroll
  for (int f = FIRST; f < FIRST + FIELDS; ++f) arrays_ptr[f * count + i] = updated(arrays_ptr[f * count + i]);
}

// Four particles a thread, in 16-byte accesses; their count is a multiple of 32.
extern "C" __global__ void arrays_wide(float* __restrict__ arrays_ptr, long long count) {
  long long i = 4 * (blockIdx.x * (long long)blockDim.x + threadIdx.x);
  if (i >= count) return;
  float* fields = arrays_ptr + FIRST * count;
  float4 v[FIELDS];
#pragma unroll
  for (int f = 0; f < FIELDS; ++f) v[f] = *reinterpret_cast<const float4*>(fields + f * count + i);
#pragma unroll
  for (int f = 0; f < FIELDS; ++f) {
    v[f] = make_float4(updated(v[f].x), updated(v[f].y), updated(v[f].z), updated(v[f].w));
    *reinterpret_cast<float4*>(fields + f * count + i) = v[f];
  }
}

// Tiles of 32 particles, within each a structure of arrays: a warp's access is one line, and all fields of a particle
// stay within 2 KiB of each other.
extern "C" __global__ void tiles(float* __restrict__ tiles_ptr, long long count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
  float* own = tiles_ptr + i / 32 * (32 * FLOATS) + i % 32;
#pragma unroll
  for (int f = FIRST; f < FIRST + FIELDS; ++f) own[32 * f] = updated(own[32 * f]);
}
