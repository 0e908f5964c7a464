// Messages from one process to another, and an answer to each: through descriptors, and through shared memory.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define SPINS 4096  // of a wait, before each offer of the core to others

// Words begin to end of all that is sent: they lie on a line, modulo 2^64.
void produce(int64_t* out, const int64_t* line, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) out[i - begin] = (int64_t)((uint64_t)line[0] + (uint64_t)line[1] * (uint64_t)i);
}
int64_t sum(const int64_t* words, int64_t count) {
  uint64_t total = 0;
  for (int64_t i = 0; i < count; ++i) total += (uint64_t)words[i];
  return (int64_t)total;
}

// 0, or the error. A pipe and a socket take and give as much as they have room for.
static int64_t write_all(int64_t descriptor, const void* data, int64_t size) {
  for (const char* next = data; size > 0;) {
    const ssize_t done = write((int)descriptor, next, (size_t)size);
    if (done < 0 && errno != EINTR) return errno;
    if (done > 0) next += done, size -= done;
  }
  return 0;
}
static int64_t read_all(int64_t descriptor, void* data, int64_t size) {
  for (char* next = data; size > 0;) {
    const ssize_t done = read((int)descriptor, next, (size_t)size);
    if (done == 0) return EPIPE;  // the other process has ended
    if (done < 0 && errno != EINTR) return errno;
    if (done > 0) next += done, size -= done;
  }
  return 0;
}

int64_t ask(const int64_t* line, int64_t* buffer, int64_t* sums, int64_t n, int64_t messages, int64_t out, int64_t in) {
  int64_t error = 0;
  for (int64_t k = 0; k < messages && !error; ++k) {
    produce(buffer, line, k * n, (k + 1) * n);
    error = write_all(out, buffer, 8 * n);
    if (!error) error = read_all(in, sums + k, 8);
  }
  return error;
}
int64_t answer(const int64_t* line, int64_t* buffer, int64_t* sums, int64_t n, int64_t messages, int64_t out,
               int64_t in) {
  int64_t error = 0;
  for (int64_t k = 0; k < messages && !error; ++k) {
    error = read_all(in, buffer, 8 * n);
    sums[k] = (int64_t)((uint64_t)line[0] + (uint64_t)sum(buffer, n));
    if (!error) error = write_all(out, sums + k, 8);
  }
  return error;
}

// The beginning of the shared memory. Counts go up for ever, each in a line of its own; a semaphore beside each has a
// unit for each raise, for waits that sleep. `freed` is the producer's: how many raises of `consumed` it has waited for.
typedef struct {
  _Alignas(64) _Atomic int64_t count;
  sem_t raised;
} counter;
typedef struct {
  counter produced, consumed, answered;
  int64_t freed, last_answer;
  _Alignas(64) int64_t words[];
} channel;

int64_t channel_bytes(void) { return sizeof(channel); }

void open_channel(channel* c) {
  counter* const all[] = {&c->produced, &c->consumed, &c->answered};
  for (int i = 0; i < 3; ++i) sem_init(&all[i]->raised, 1, 0);
}

static void raise_count(counter* counter, int64_t polled) {
  atomic_fetch_add_explicit(&counter->count, 1, memory_order_release);
  if (!polled) sem_post(&counter->raised);
}
// Each raise is waited for once, in order.
static void wait_for(counter* counter, int64_t least, int64_t polled) {
  if (!polled)
    while (sem_wait(&counter->raised)) continue;  // a signal came
  for (int64_t turn = 1; atomic_load_explicit(&counter->count, memory_order_acquire) < least; ++turn)
    if (turn % SPINS == 0) sched_yield();
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// A message in pieces, each in the next of `slots` places, which is filled again as soon as it was read.
void ask_shared(const int64_t* line, channel* c, int64_t* sums, int64_t n, int64_t messages, int64_t piece,
                int64_t slots, int64_t polled) {
  int64_t count = atomic_load(&c->produced.count), answers = atomic_load(&c->answered.count);
  for (int64_t k = 0; k < messages; ++k) {
    for (int64_t begin = 0; begin < n; begin += piece, ++count) {
      if (count - c->freed == slots) wait_for(&c->consumed, ++c->freed, polled);
      const int64_t first = k * n + begin;
      produce(c->words + count % slots * piece, line, first, first + least(piece, n - begin));
      raise_count(&c->produced, polled);
    }
    wait_for(&c->answered, ++answers, polled);
    sums[k] = c->last_answer;
  }
}
void answer_shared(const int64_t* line, channel* c, int64_t* sums, int64_t n, int64_t messages, int64_t piece,
                   int64_t slots, int64_t polled) {
  int64_t count = atomic_load(&c->consumed.count);
  for (int64_t k = 0; k < messages; ++k) {
    uint64_t total = (uint64_t)line[0];
    for (int64_t begin = 0; begin < n; begin += piece, ++count) {
      wait_for(&c->produced, count + 1, polled);
      total += (uint64_t)sum(c->words + count % slots * piece, least(piece, n - begin));
      raise_count(&c->consumed, polled);
    }
    c->last_answer = sums[k] = (int64_t)total;
    raise_count(&c->answered, polled);
  }
}
