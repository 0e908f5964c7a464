"""KV transfer: hand a paged cache from the rank that made it to the rank that decodes with it.

Question    What does it take to move scattered blocks of a cache into another GPU's pool at the rate of the link?

Numbers     Each rank has a prompt's cache: 512 blocks of 64 KiB in each of 32 layers, 1.07 GB, scattered over a cache
            of twice as many. The next rank, in a ring, needs them in its pool in the order of its own block table: 2.8
            ms at 380 GB/s. 16384 blocks, one message for each; a gather or a deal at 4.3 TB/s takes 0.5 ms.

Prediction  Gathered, sent and dealt out: 2.8 + 2 x 0.5 ms. A gather that writes into the peer's buffer spares one copy,
            3.3 ms; into the peer's pool by a table sent ahead both: 2.8 ms and the wait for the table. Messages for
            each block cost 16384 launches.

Limits      Blocks of a megabyte: a message for each reaches the rate of the link. The baseline on GPUs goes through
            sockets of the hosts, far from what PCIe allows. A message for each layer loses here: 32 messages cost more
            than the copies that they hide, 0.5 ms at each end; `ch04.kv_overlap` has products to hide them behind.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.distributed import exchange, put, register_peer_operation, symmetric_buffers, wait_all

bench = Benchmark(goal="latency", clock="wall")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu"), bench.on("cuda", requires="gpus:2")


@bench.workload(
    smoke={"layers": 3, "blocks": 5, "block_bytes": 74, "world_size": 2},
    cpu={"layers": 4, "blocks": 32, "block_bytes": 1 << 16, "world_size": 2},
    # Of 8192 tokens, 16 a block, each with keys and values of 8 heads of 128.
    cuda={"layers": 32, "blocks": 512, "block_bytes": 1 << 16, "world_size": 2},
)
def inputs(layers, blocks, block_bytes, device, generator):
    cache = torch.randn(layers, 2 * blocks, block_bytes // 2, device=device, generator=generator).bfloat16()
    held = torch.randperm(2 * blocks, device=device, generator=generator)[:blocks]
    return {"cache": cache, "held": held, "wanted": torch.randperm(blocks, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(cache, held, wanted, world_size):
    pools = []
    for rank in range(world_size):
        before = rank - 1
        pool = torch.empty_like(cache[before][:, held[before]])
        pool[:, wanted[rank]] = cache[before][:, held[before]]
        pools.append(pool)
    return pools


@bench.cost
def cost(layers, blocks, block_bytes, world_size):
    size = layers * blocks * block_bytes
    # Half of the cache need not be read. Each rank sends what it holds; a rank that is alone sends nothing.
    return Cost(bytes_read=size + 16 * blocks, bytes_written=size, wire_bytes=size if world_size > 1 else 0)


# A single element; with three ranks, primes and blocks of no whole 8-byte words; then of whole ones.
bench.awkward(
    {"layers": 1, "blocks": 1, "block_bytes": 2, "world_size": 2},
    {"layers": 5, "blocks": 31, "block_bytes": 202, "world_size": 3},
    {"layers": 2, "blocks": 7, "block_bytes": 104, "world_size": 2},
)
bench.accept("cost.bytes_read", because="half of the cache is not handed over and need not be read")
cuda.reach(of="P2P", at_least=0.80)


def words(cache):
    """The same memory in words of 8 bytes, where blocks have whole ones: a copy needs as few accesses as it can."""
    return cache.view(torch.int64) if cache.shape[-1] % 4 == 0 else cache


class Handing:
    """Between this rank, the rank before and the rank after."""

    def prepare(self, cache, held, rank, world_size):
        self.after, self.before = (rank + 1) % world_size, (rank - 1) % world_size
        self.shape = len(cache), len(held), cache.shape[2]
        self.make_memory(cache)

    def make_memory(self, cache):
        """What a call fills; the pool is the output."""
        self.pool = cache.new_empty(self.shape)

    def hand(self, sent, received):
        """Start to send to the rank after and to receive from the rank before."""
        return exchange({self.after: sent}, {self.before: received})


@cuda.variant(adds="peer messages", why="no host between the GPUs, though many messages")
@cpu.baseline(kind="naive")
class PerBlock(Handing):
    def run(self, cache, held, wanted):
        works = []
        for source, place in zip(held.tolist(), wanted.tolist(), strict=True):
            for sent, received in zip(cache[:, source], self.pool[:, place], strict=True):
                works += self.hand(sent, received)
        wait_all(works)
        return self.pool


@cuda.baseline(kind="antipattern")
class ThroughHosts(Handing):
    def make_memory(self, cache):
        super().make_memory(cache)
        self.out, self.incoming = (torch.empty(self.shape, dtype=cache.dtype, pin_memory=True) for _ in range(2))

    def run(self, cache, held, wanted):
        self.out.copy_(cache[:, held])
        wait_all(self.hand(self.out, self.incoming))
        self.pool[:, wanted] = self.incoming.to(cache.device)
        return self.pool


@both.variant(adds=("peer messages", "gather"), why="one message for all blocks, at the price of a copy at each end")
class Gathered(Handing):
    def make_memory(self, cache):
        super().make_memory(cache)
        self.out, self.incoming = (cache.new_empty(self.shape) for _ in range(2))

    def run(self, cache, held, wanted):
        torch.index_select(words(cache), 1, held, out=words(self.out))
        wait_all(self.hand(self.out, self.incoming))
        words(self.pool).index_copy_(1, wanted, words(self.incoming))
        return self.pool


put_blocks = register_peer_operation(
    "ch04_put_blocks(Tensor cache, Tensor held, Tensor(a!) there) -> ()",
    lambda cache, held, there: torch.index_select(cache, 1, held, out=there),
)


@cuda.variant(
    builds_on="gathered",
    adds="peer writes",
    why="the gather writes into the peer's memory: no message, and no copy at the sender",
    predict="1.1 to 1.3x: 2.8 + 0.5 ms in place of 2.8 + 1.0",
)
class Puts(Handing):
    def make_memory(self, cache):
        super().make_memory(cache)
        self.incoming = symmetric_buffers(*self.shape, dtype=cache.dtype)

    def run(self, cache, held, wanted):
        put_blocks(words(cache), held, words(self.incoming.all[self.after]))
        self.incoming.barrier()
        words(self.pool).index_copy_(1, wanted, words(self.incoming.mine))
        self.incoming.barrier()  # the next call writes where this one reads
        return self.pool


@cuda.variant(
    builds_on="puts",
    adds="table sent ahead",
    why="a table of 8 bytes a block goes ahead, and the gather writes each block in its place: no copy at the receiver",
    predict="1 to 1.2x: 2.8 ms in place of 2.8 + 0.5, and a wait for the table",
)
class PutsIntoPool(Handing):
    def make_memory(self, cache):
        self.pools = symmetric_buffers(*self.shape, dtype=cache.dtype)
        self.tables = symmetric_buffers(self.shape[1], dtype=torch.int64)

    def run(self, cache, held, wanted):
        # Of the blocks in the order of the sender: which goes to the first place of the pool, to the second, ...
        put(self.tables.all[self.before], wanted.argsort())
        # Behind it every rank has begun its call, and does not read the pool of its last call any more.
        self.tables.barrier()
        put_blocks(words(cache), held[self.tables.mine], words(self.pools.all[self.after]))
        # Behind it the pool is whole, and the table of this call was read.
        self.pools.barrier()
        return self.pools.mine
