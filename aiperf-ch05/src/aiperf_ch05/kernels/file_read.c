// The sum of the 64-bit words in each piece of 64 KiB, of memory and of a file. Behind the last byte there are zeros.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define PIECE (1 << 16)  // bytes

static uint64_t sum_words(const unsigned char* bytes, int64_t count) {
  uint64_t total = 0, word;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    memcpy(&word, bytes + i, 8);
    total += word;
  }
  if (i < count) {
    word = 0;
    memcpy(&word, bytes + i, count - i);
    total += word;
  }
  return total;
}

void sum_pieces(const void* bytes, int64_t n, int64_t* sums) {
  for (int64_t at = 0; at < n; at += PIECE) {
    const int64_t count = n - at < PIECE ? n - at : PIECE;
    sums[at / PIECE] = (int64_t)sum_words((const unsigned char*)bytes + at, count);
  }
}

// Fill the buffer from `at` on, or to the end of the file. How many bytes came, or -1 with errno.
static int64_t fill(int fd, unsigned char* buffer, int64_t request, int64_t at, int64_t n) {
  const int64_t wanted = n - at < request ? n - at : request;
  int64_t got = 0;
  while (got < wanted) {
    // Always whole requests: a direct read must end at a block too, and is cut where the file ends.
    const int64_t one = pread(fd, buffer + got, request - got, at + got);
    if (one < 0 && errno == EINTR) continue;
    if (one < 0) return -1;
    if (one == 0) {  // the file is shorter than it was
      errno = EIO;
      return -1;
    }
    got += one;
  }
  return wanted;
}

// Read n bytes by requests of a power of two, `queue` threads at a time, each with a buffer of its own. 0, or an errno.
int read_all(int fd, int64_t n, void* buffers, int64_t request, int queue, int64_t* sums) {
  int failed = 0;
  // A request that is smaller than a piece is a part of its sum, and such are never read by several threads.
  memset(sums, 0, (n + PIECE - 1) / PIECE * sizeof *sums);
#pragma omp parallel for schedule(dynamic) num_threads(queue)
  for (int64_t at = 0; at < n; at += request) {
    int stop;
#pragma omp atomic read
    stop = failed;
    if (stop) continue;
#ifdef _OPENMP
    extern int omp_get_thread_num(void);
    unsigned char* buffer = (unsigned char*)buffers + omp_get_thread_num() * request;
#else
    unsigned char* buffer = buffers;
#endif
    const int64_t count = fill(fd, buffer, request, at, n);
    if (count < 0) {
      const int why = errno;
#pragma omp atomic write
      failed = why;
      continue;
    }
    for (int64_t inner = 0; inner < count; inner += PIECE) {
      const int64_t part = count - inner < PIECE ? count - inner : PIECE;
      sums[(at + inner) / PIECE] += (int64_t)sum_words(buffer + inner, part);
    }
  }
  return failed;
}
