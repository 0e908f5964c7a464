// Loops that measure the ceilings of a CPU: all threads, full vectors, stores that bypass the caches.
// Arrays are aligned to 64 bytes, and n is a multiple of 64 doubles.
#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 64
#define CHAINS 24  // of 32 registers
#elif defined(__AVX__)
#define WIDTH 32
#define CHAINS 12  // of 16 registers
#else
#define WIDTH 16
#define CHAINS 24
#endif

typedef double doubles __attribute__((vector_size(WIDTH)));
typedef float floats __attribute__((vector_size(WIDTH)));
enum { PER_VECTOR = WIDTH / 8, UNROLL = 8 };

static volatile double start = 0.5;  // unknown to the compiler, which would fold a constant chain

// Makes the compiler assume that all of this is read.
#define KEEP(array) __asm__ volatile("" : : "m"(array))

static inline void put(double* at, doubles value) {
#if defined(__AVX512F__)
  _mm512_stream_pd(at, (__m512d)value);
#elif defined(__AVX__)
  _mm256_stream_pd(at, (__m256d)value);
#elif defined(__SSE2__)
  _mm_stream_pd(at, (__m128d)value);
#else
  *(doubles*)at = value;
#endif
}

static inline doubles get(const double* at) { return *(const doubles*)at; }

// Loops over `k` are unrolled, so that indexed values stay in registers.

// The pieces of this thread.
static inline void share(int64_t pieces, int64_t* first, int64_t* last) {
#ifdef _OPENMP
  int64_t rank = omp_get_thread_num(), count = omp_get_num_threads();
#else
  int64_t rank = 0, count = 1;
#endif
  *first = pieces * rank / count;
  *last = pieces * (rank + 1) / count;
}

void stream_copy(double* c, const double* a, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += PER_VECTOR) put(c + i, get(a + i));
}

void stream_scale(double* c, const double* a, double factor, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += PER_VECTOR) put(c + i, get(a + i) * factor);
}

void stream_add(double* c, const double* a, const double* b, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += PER_VECTOR) put(c + i, get(a + i) + get(b + i));
}

void stream_triad(double* c, const double* a, const double* b, double factor, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += PER_VECTOR) put(c + i, get(a + i) + get(b + i) * factor);
}

void stream_write(double* c, int64_t n) {
  const doubles ones = (doubles){0} + 1;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += PER_VECTOR) put(c + i, ones);
}

// Reads the array `rounds` times: once for the rate of memory, repeatedly for the rate of a cache. A thread keeps its
// part.
void stream_read(const double* a, int64_t n, int64_t rounds) {
#pragma omp parallel
  {
    int64_t first, last;
    share(n / (PER_VECTOR * UNROLL), &first, &last);
    doubles sums[UNROLL] = {{0}};
    for (int64_t round = 0; round < rounds; round++) {
      for (int64_t piece = first; piece < last; piece++) {
        const double* at = a + piece * PER_VECTOR * UNROLL;
#pragma GCC unroll 32
        for (int k = 0; k < UNROLL; k++) sums[k] += get(at + k * PER_VECTOR);
      }
      __asm__ volatile("" ::: "memory");  // otherwise the compiler reads once
    }
    KEEP(sums);
  }
}

// Every thread reads 32 bytes from random places, eight at a time. `lines` counts places of 64 bytes; returns the number
// of reads.
double random_read(const double* a, int64_t lines, int64_t rounds) {
  double done = 0;
#pragma omp parallel reduction(+ : done)
  {
    int64_t rank, ignored;
    share(1 << 20, &rank, &ignored);
    uint64_t state = 0x9e3779b97f4a7c15ull * (uint64_t)(rank + 1);
    double sums[UNROLL] = {0};
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 32
      for (int k = 0; k < UNROLL; k++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        const double* at = a + 8 * (int64_t)((uint64_t)(((unsigned __int128)state * (uint64_t)lines) >> 64));
        sums[k] += at[0] + at[3];
      }
    }
    KEEP(sums);
    done += (double)rounds * UNROLL;
  }
  return done;
}

// Goes from place to place, where each read waits for the one before; returns the last place.
int64_t follow(const int64_t* next, int64_t steps) {
  int64_t at = 0;
  for (int64_t step = 0; step < steps; step++) at = next[at];
  return at;
}

// Independent chains of multiply-adds in registers, on every thread. Both return the number of operations.
double fma32(int64_t rounds) {
  double done = 0;
#pragma omp parallel reduction(+ : done)
  {
    floats chain[CHAINS], factor = (floats){0} + 0.999f, term = (floats){0} + 0.001f;
#pragma GCC unroll 32
    for (int k = 0; k < CHAINS; k++) chain[k] = (floats){0} + (float)(start + k);
    for (int64_t round = 0; round < rounds; round++)
#pragma GCC unroll 32
      for (int k = 0; k < CHAINS; k++) chain[k] = chain[k] * factor + term;
    KEEP(chain);
    done += 2.0 * rounds * CHAINS * (WIDTH / 4);
  }
  return done;
}

double fma64(int64_t rounds) {
  double done = 0;
#pragma omp parallel reduction(+ : done)
  {
    doubles chain[CHAINS], factor = (doubles){0} + 0.999, term = (doubles){0} + 0.001;
#pragma GCC unroll 32
    for (int k = 0; k < CHAINS; k++) chain[k] = (doubles){0} + (start + k);
    for (int64_t round = 0; round < rounds; round++)
#pragma GCC unroll 32
      for (int k = 0; k < CHAINS; k++) chain[k] = chain[k] * factor + term;
    KEEP(chain);
    done += 2.0 * rounds * CHAINS * PER_VECTOR;
  }
  return done;
}
