// All-reduce by writing into the memory of peers. Every rank runs the same grid, and a thread of one rank exchanges words of
// four values with the same thread of all others, and with nobody else.
//
// Exchanges are numbered, and a message carries its number: of each of its halves 32 bits are data and 32 the number, and a half
// arrives in one piece. Who sees the number has the data with it: there is no flag, no fence and no barrier to wait for.
//
// No message is overwritten before it was read. A rank has two inboxes, which take turns, and every thread takes part in every
// exchange, with zeros where it has no word. It begins exchange e, and writes where messages of e - 2 lay, when it has received
// those of e - 1 from all peers. Each of them sent its message of e - 1 after it had received those of e - 2: in the same thread, or
// in a kernel before this one.
#include <cuda_bf16.h>

#define WORD 4
#define THREADS 256
// Two blocks shall find room on a multiprocessor: blocks wait for those of other ranks, so that all must run at once.
#define BLOCKS_PER_SM 2

union Word {
  unsigned parts[2];
  __nv_bfloat16 values[WORD];
};

struct alignas(16) Message {
  unsigned long long halves[2];
};

// Relaxed accesses at the scope of the system: each half is atomic, and none is served by a first-level cache.
__device__ void post(Message* to, Word w, unsigned number) {
  unsigned long long stamp = (unsigned long long)number << 32;
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(stamp | w.parts[0]), "l"(stamp | w.parts[1])
               : "memory");
}

__device__ Message look(const Message* at) {
  Message m;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(m.halves[0]), "=l"(m.halves[1]) : "l"(at) : "memory");
  return m;
}

__device__ bool has(Message m, unsigned number) { return m.halves[0] >> 32 == number && m.halves[1] >> 32 == number; }

// What a thread sends to and receives from. `addresses` are those of the inboxes of all ranks, in each of which lie two messages
// of every thread of every rank.
template <int WORLD>
struct Mail {
  Message* inboxes[WORLD];  // this rank's own, and then those of the ranks after it: not all write to the same one first
  int rank;
  long long threads, thread;

  __device__ Mail(const long long* addresses, int rank) : rank(rank) {
    threads = (long long)gridDim.x * blockDim.x;
    thread = blockIdx.x * (long long)blockDim.x + threadIdx.x;
#pragma unroll
    for (int away = 0; away < WORLD; ++away) inboxes[away] = (Message*)addresses[(rank + away) % WORLD];
  }

  __device__ long long place(int sender, unsigned number) const {
    return ((number & 1) * WORLD + sender) * threads + thread;
  }

  __device__ void send(int away, Word w, unsigned number) const { post(inboxes[away] + place(rank, number), w, number); }

  // The words of all ranks, in their order; of this rank it is `own`.
  __device__ void receive(Word (&words)[WORLD], Word own, unsigned number) const {
    Message found[WORLD];
#pragma unroll
    for (int peer = 0; peer < WORLD; ++peer)  // all are asked for before one is waited for
      if (peer != rank) found[peer] = look(inboxes[0] + place(peer, number));
#pragma unroll
    for (int peer = 0; peer < WORLD; ++peer) {
      words[peer] = own;
      if (peer != rank) {
        while (!has(found[peer], number)) found[peer] = look(inboxes[0] + place(peer, number));
        for (int half = 0; half < 2; ++half) words[peer].parts[half] = (unsigned)found[peer].halves[half];
      }
    }
  }
};

// A word of n values; zeros for what lies beyond them.
__device__ Word load(const __nv_bfloat16* x, long long word, long long n) {
  Word w;
  if (WORD * word + WORD <= n) {
    uint2 parts = reinterpret_cast<const uint2*>(x)[word];
    w.parts[0] = parts.x, w.parts[1] = parts.y;
  } else {
#pragma unroll
    for (int k = 0; k < WORD; ++k) w.values[k] = WORD * word + k < n ? x[WORD * word + k] : __float2bfloat16(0.0f);
  }
  return w;
}

__device__ void store(__nv_bfloat16* x, long long word, long long n, Word w) {
  if (WORD * word + WORD <= n) {
    reinterpret_cast<uint2*>(x)[word] = make_uint2(w.parts[0], w.parts[1]);
  } else {
#pragma unroll
    for (int k = 0; k < WORD; ++k)
      if (WORD * word + k < n) x[WORD * word + k] = w.values[k];
  }
}

// Sums in float32, always in the order of the ranks: all ranks get the same bits.
template <int WORLD>
__device__ Word sum(const Word (&words)[WORLD]) {
  Word w;
#pragma unroll
  for (int k = 0; k < WORD; ++k) {
    float total = 0.0f;
#pragma unroll
    for (int peer = 0; peer < WORLD; ++peer) total += __bfloat162float(words[peer].values[k]);
    w.values[k] = __float2bfloat16(total);
  }
  return w;
}

// Every rank sends what it has to all others, and adds up what it receives.
template <int WORLD>
__device__ void one_shot_among(__nv_bfloat16* x, const long long* addresses, long long n, int rank, int rounds, unsigned number) {
  Mail<WORLD> mail(addresses, rank);
  for (int round = 0; round < rounds; ++round, ++number) {
    long long word = round * mail.threads + mail.thread;
    Word own = load(x, word, n), words[WORLD];
#pragma unroll
    for (int away = 1; away < WORLD; ++away) mail.send(away, own, number);
    mail.receive(words, own, number);
    store(x, word, n, sum(words));
  }
}

// Each rank is sent what all others have of its share of the words, adds it up, and sends the sums to all others.
template <int WORLD>
__device__ void two_shot_among(__nv_bfloat16* x, const long long* addresses, long long n, int rank, int rounds, unsigned number) {
  Mail<WORLD> mail(addresses, rank);
  long long share = ((n + WORD - 1) / WORD + WORLD - 1) / WORLD;
  for (int round = 0; round < rounds; ++round, number += 2) {
    long long at = round * mail.threads + mail.thread;
    long long end = at < share ? n : 0;  // beyond this share begins the next one
    Word words[WORLD];
#pragma unroll
    for (int away = 0; away < WORLD; ++away) words[away] = load(x, (rank + away) % WORLD * share + at, end);
    Word own = words[0];
#pragma unroll
    for (int away = 1; away < WORLD; ++away) mail.send(away, words[away], number);
    mail.receive(words, own, number);
    own = sum(words);
#pragma unroll
    for (int away = 1; away < WORLD; ++away) mail.send(away, own, number + 1);
    mail.receive(words, own, number + 1);
#pragma unroll
    for (int owner = 0; owner < WORLD; ++owner) store(x, owner * share + at, end, words[owner]);
  }
}

// For many bytes: data travel alone, 16 bytes an access, and a flag follows a block's part. Between a block and those of the
// other ranks with the same number, and nobody else.
//
// In each step a block sends to every rank a part of that rank's share (scatter), adds up the parts of its own share that it
// received and sends the sums to all (gather). It is AHEAD steps ahead with scattering, so that links carry data while a block
// adds. Steps are numbered through all calls, and what a step receives lies in the places of step number % AHEAD.
//
// No place is overwritten before it was read. To scatter step s a block writes where s - AHEAD lay: it has received the sums of
// that step before, which the receiver sent when it had read that place. To send the sums of step s it has received the parts of
// s from all, which they scattered after they had read the sums of s - AHEAD.
#define AHEAD 4  // a power of two
#define PIECES 8
#define PART (PIECES * THREADS)  // in lines
#define LINE (2 * WORD)

struct alignas(16) Line {
  Word words[2];

  __device__ __nv_bfloat16& operator[](int k) { return words[k / WORD].values[k % WORD]; }
};

__device__ Line load_line(const __nv_bfloat16* x, long long line, long long n) {
  Line found;
  if (LINE * (line + 1) <= n) {
    found = reinterpret_cast<const Line*>(x)[line];
  } else {
    for (int k = 0; k < 2; ++k) found.words[k] = load(x, 2 * line + k, n);
  }
  return found;
}

__device__ void store_line(__nv_bfloat16* x, long long line, long long n, Line value) {
  if (LINE * (line + 1) <= n) {
    reinterpret_cast<Line*>(x)[line] = value;
  } else {
    for (int k = 0; k < 2; ++k) store(x, 2 * line + k, n, value.words[k]);
  }
}

enum Kind { SCATTERED, GATHERED };

// A block's places in the memory of all ranks: parts of both kinds, and behind those of all blocks the flags.
struct Post {
  const long long* addresses;
  int rank, world;

  __device__ int after(int away) const { return (rank + away) % world; }  // not all send to the same one first

  __device__ Line* part(int receiver, Kind kind, int sender, unsigned step) const {
    long long place = ((kind * AHEAD + step % AHEAD) * world + sender) * (long long)gridDim.x + blockIdx.x;
    return reinterpret_cast<Line*>(addresses[receiver]) + place * PART + threadIdx.x;
  }

  __device__ unsigned* flag(int receiver, Kind kind, int sender) const {
    Line* behind = reinterpret_cast<Line*>(addresses[receiver]) + 2LL * AHEAD * world * gridDim.x * PART;
    return reinterpret_cast<unsigned*>(behind) + (kind * world + sender) * (long long)gridDim.x + blockIdx.x;
  }

  // Tells all other ranks that this block's parts of a step are there.
  __device__ void tell(Kind kind, unsigned step) const {
    __syncthreads();
    int receiver = threadIdx.x;
    if (receiver < world && receiver != rank) {
      __threadfence_system();
      asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag(receiver, kind, rank)), "r"(step) : "memory");
    }
  }

  // Waits until all other ranks have sent their parts of a step. Flags grow, and may be a step further already.
  __device__ void wait(Kind kind, unsigned step) const {
    int sender = threadIdx.x;
    if (sender < world && sender != rank) {
      unsigned found;
      do {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(found) : "l"(flag(rank, kind, sender)) : "memory");
      } while ((int)(found - step) < 0);
    }
    __syncthreads();
  }
};

// A block's part of a step in one rank's share of x.
struct Part {
  __nv_bfloat16* x;
  long long first, from, share, n;

  __device__ Part(__nv_bfloat16* x, long long n, int owner, int world, int step) : x(x), n(n) {
    share = ((n + LINE - 1) / LINE + world - 1) / world;
    first = owner * share;
    from = (step * (long long)gridDim.x + blockIdx.x) * PART + threadIdx.x;
  }

  __device__ long long at(int piece) const { return from + piece * THREADS; }
  __device__ long long end(int piece) const { return at(piece) < share ? n : 0; }  // beyond it begins the next share
  __device__ Line load(int piece) const { return load_line(x, first + at(piece), end(piece)); }
  __device__ void store(int piece, Line value) const { store_line(x, first + at(piece), end(piece), value); }
};

__device__ void scatter(const Post& post, __nv_bfloat16* x, long long n, int round, unsigned step) {
  for (int away = 1; away < post.world; ++away) {
    int owner = post.after(away);
    Part mine(x, n, owner, post.world, round);
    Line found[PIECES], *to = post.part(owner, SCATTERED, post.rank, step);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) found[piece] = mine.load(piece);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) to[piece * THREADS] = found[piece];
  }
  post.tell(SCATTERED, step);
}

__device__ void add(const Post& post, __nv_bfloat16* x, long long n, int round, unsigned step) {
  Part mine(x, n, post.rank, post.world, round);
  float totals[PIECES][LINE] = {};
  Line found[PIECES];
  post.wait(SCATTERED, step);
  for (int peer = 0; peer < post.world; ++peer) {
    const Line* from = post.part(post.rank, SCATTERED, peer, step);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) found[piece] = peer == post.rank ? mine.load(piece) : from[piece * THREADS];
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
      for (int k = 0; k < LINE; ++k) totals[piece][k] += __bfloat162float(found[piece][k]);
  }
#pragma unroll
  for (int piece = 0; piece < PIECES; ++piece) {
#pragma unroll
    for (int k = 0; k < LINE; ++k) found[piece][k] = __float2bfloat16(totals[piece][k]);
    for (int away = 1; away < post.world; ++away)
      post.part(post.after(away), GATHERED, post.rank, step)[piece * THREADS] = found[piece];
    mine.store(piece, found[piece]);
  }
  post.tell(GATHERED, step);
}

__device__ void take(const Post& post, __nv_bfloat16* x, long long n, int round, unsigned step) {
  post.wait(GATHERED, step);
  for (int away = 1; away < post.world; ++away) {
    int owner = post.after(away);
    Part sums(x, n, owner, post.world, round);
    const Line* from = post.part(post.rank, GATHERED, owner, step);
    Line found[PIECES];
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) found[piece] = from[piece * THREADS];
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) sums.store(piece, found[piece]);
  }
}

// For each number of ranks code of its own, in which the loops over them are unrolled.
#define AMONG(among)                                                     \
  switch (world) {                                                       \
    case 1: return among<1>(x, addresses, n, rank, rounds, number);      \
    case 2: return among<2>(x, addresses, n, rank, rounds, number);      \
    case 3: return among<3>(x, addresses, n, rank, rounds, number);      \
    case 4: return among<4>(x, addresses, n, rank, rounds, number);      \
    case 5: return among<5>(x, addresses, n, rank, rounds, number);      \
    case 6: return among<6>(x, addresses, n, rank, rounds, number);      \
    case 7: return among<7>(x, addresses, n, rank, rounds, number);      \
    case 8: return among<8>(x, addresses, n, rank, rounds, number);      \
  }

// `number` is that of the first exchange: one in a round here, two in the next kernel, and in the last one that of the first step.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    one_shot(__nv_bfloat16* x, const long long* addresses, long long n, int rank, int world, int rounds, unsigned number) {
  AMONG(one_shot_among)
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    two_shot(__nv_bfloat16* x, const long long* addresses, long long n, int rank, int world, int rounds, unsigned number) {
  AMONG(two_shot_among)
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    pipelined(__nv_bfloat16* x, const long long* addresses, long long n, int rank, int world, int rounds, unsigned number) {
  Post post = {addresses, rank, world};
  for (int round = 0; round < AHEAD - 1 && round < rounds; ++round) scatter(post, x, n, round, number + round);
  for (int round = 0; round < rounds; ++round) {
    add(post, x, n, round, number + round);
    if (round > 0) take(post, x, n, round - 1, number + round - 1);
    int next = round + AHEAD - 1;
    if (next < rounds) scatter(post, x, n, next, number + next);
  }
  take(post, x, n, rounds - 1, number + rounds - 1);
}
