// The sum of the 64-bit words in each piece of 64 KiB, of memory and of a file. Zeros follow the last byte.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

// A ring of requests that this process shares with the kernel (io_uring), by the kernel's interface itself.
struct ring {
  int fd;
  unsigned *tail, *array, sq_mask;             // of submissions
  unsigned *done_head, *done_tail, done_mask;  // of completions
  struct io_uring_sqe* entries;
  struct io_uring_cqe* done;
  void* maps[3];
  size_t lengths[3];
};

static void close_ring(struct ring* ring) {
  for (int i = 0; i < 3; ++i)
    if (ring->lengths[i]) munmap(ring->maps[i], ring->lengths[i]);
  close(ring->fd);
}

// 0, or an errno.
static int open_ring(struct ring* ring, unsigned queue) {
  struct io_uring_params params;
  memset(&params, 0, sizeof params);
  memset(ring, 0, sizeof *ring);
  ring->fd = (int)syscall(__NR_io_uring_setup, queue, &params);
  if (ring->fd < 0) return errno;
  const int64_t offsets[3] = {IORING_OFF_SQ_RING, IORING_OFF_CQ_RING, IORING_OFF_SQES};
  const size_t lengths[3] = {params.sq_off.array + params.sq_entries * sizeof(unsigned),
                             params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
                             params.sq_entries * sizeof(struct io_uring_sqe)};
  for (int i = 0; i < 3; ++i) {
    void* map = mmap(NULL, lengths[i], PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, offsets[i]);
    if (map == MAP_FAILED) {
      const int why = errno;
      close_ring(ring);
      return why;
    }
    ring->maps[i] = map;
    ring->lengths[i] = lengths[i];
  }
  char *sq = ring->maps[0], *cq = ring->maps[1];
  ring->tail = (unsigned*)(sq + params.sq_off.tail);
  ring->array = (unsigned*)(sq + params.sq_off.array);
  ring->sq_mask = *(unsigned*)(sq + params.sq_off.ring_mask);
  ring->done_head = (unsigned*)(cq + params.cq_off.head);
  ring->done_tail = (unsigned*)(cq + params.cq_off.tail);
  ring->done_mask = *(unsigned*)(cq + params.cq_off.ring_mask);
  ring->done = (struct io_uring_cqe*)(cq + params.cq_off.cqes);
  ring->entries = ring->maps[2];
  return 0;
}

// Why this process may have no ring: an errno, or 0 if it may.
int refused_ring(void) {
  struct ring ring;
  const int why = open_ring(&ring, 1);
  if (!why) close_ring(&ring);
  return why;
}

#define MOST_REQUESTS 64

// As read_all, by one thread with `queue` requests in the ring, at most MOST_REQUESTS. Requests are whole pieces.
int read_ring(int fd, int64_t n, void* buffers, int64_t request, int queue, int64_t* sums) {
  struct ring ring;
  struct {
    int64_t at, got;  // the first byte of the buffer in the file; the bytes that are there
    struct iovec rest;
  } slots[MOST_REQUESTS];
  if (queue > MOST_REQUESTS || request % PIECE) return EINVAL;
  int failed = open_ring(&ring, queue);
  if (failed) return failed;
  int64_t next = 0;
  unsigned ready[MOST_REQUESTS], count = 0, unsubmitted = 0, pending = 0;
  for (int slot = 0; slot < queue && next < n; ++slot, next += request) {
    slots[slot].at = next;
    slots[slot].got = 0;
    ready[count++] = slot;
  }
  while (count || pending) {
    for (; count; --count) {
      const unsigned slot = ready[count - 1], tail = *ring.tail, entry = tail & ring.sq_mask;
      slots[slot].rest.iov_base = (char*)buffers + slot * request + slots[slot].got;
      slots[slot].rest.iov_len = request - slots[slot].got;  // a whole request: the end of the file cuts it
      struct io_uring_sqe* asked = &ring.entries[entry];
      memset(asked, 0, sizeof *asked);
      asked->opcode = IORING_OP_READV;
      asked->fd = fd;
      asked->off = slots[slot].at + slots[slot].got;
      asked->addr = (uintptr_t)&slots[slot].rest;
      asked->len = 1;
      asked->user_data = slot;
      ring.array[entry] = entry;
      __atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
      ++unsubmitted, ++pending;
    }
    const int taken = (int)syscall(__NR_io_uring_enter, ring.fd, unsubmitted, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    if (taken < 0 && errno != EINTR) {
      failed = errno;
      break;
    }
    unsubmitted -= taken > 0 ? taken : 0;
    // One completion at a time: its sums are made while the disk works on the others.
    const unsigned head = *ring.done_head;
    if (head == __atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE)) continue;
    const unsigned slot = (unsigned)ring.done[head & ring.done_mask].user_data;
    const int got = ring.done[head & ring.done_mask].res;
    __atomic_store_n(ring.done_head, head + 1, __ATOMIC_RELEASE);
    --pending;
    if (got == 0) failed = EIO;  // the file is shorter than it was
    if (got < 0 && got != -EINTR && got != -EAGAIN) failed = -got;
    if (failed) continue;  // until no request writes to the buffers
    slots[slot].got += got > 0 ? got : 0;
    const int64_t at = slots[slot].at, wanted = n - at < request ? n - at : request;
    if (slots[slot].got >= wanted) {
      sum_pieces((char*)buffers + slot * request, wanted, sums + at / PIECE);
      if (next >= n) continue;
      slots[slot].at = next;
      slots[slot].got = 0;
      next += request;
    }
    ready[count++] = slot;
  }
  close_ring(&ring);
  return failed;
}
