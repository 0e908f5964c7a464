"""KV transfer by pages: how large a message should be, and what it costs to make it larger.

Workload   Each rank has the keys and values of a prompt in `groups` groups of `run` pages, scattered over a cache of
           twice as many groups. The next rank, in a ring, wants them in its own pool, in an order that only its own
           table knows. Within a group, pages are neighbours at both ends: an allocator that hands out groups sees to
           that. Each rank returns its pool, which the pages fill.
Baseline   A message for each page. It goes from where the page is to where it belongs, without a copy.
Variants   `gathered`: all pages are copied together, sent in one message, and copied apart.  `grouped`: a message for
           each group, still without a copy.  `puts` (cuda): the receiver sends its table ahead, and one kernel writes
           every page where it belongs in the memory of the peer.
Breaks     Pages of a megabyte: a message for each reaches the bandwidth of the link. Groups of one page, `run=1`: there
           are no neighbours. Large groups waste what a short prompt leaves of its last group.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.distributed import exchange, put, register_peer_operation, symmetric_buffers, wait_all

bench = Benchmark(goal="throughput", clock="wall")
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu"), bench.on("cuda", requires="gpus:2")


@bench.workload(
    smoke={"groups": 5, "run": 3, "page_bytes": 74, "world_size": 2},
    cpu={"groups": 32, "run": 16, "page_bytes": 1 << 14, "world_size": 2},
    # Keys or values of 16 tokens, 8 heads of 128, in a layer.
    cuda={"groups": 128, "run": 16, "page_bytes": 1 << 15, "world_size": 2},
)
def inputs(groups, run, page_bytes, device, generator):
    draw = {"device": device, "generator": generator}

    def scattered(count):
        """The pages of `groups` groups out of `count` groups, in random order of the groups."""
        first = run * torch.randperm(count, **draw)[:groups, None]
        return (first + torch.arange(run, device=device)).flatten()

    cache = torch.randn(2 * groups * run, page_bytes // 2, **draw).bfloat16()
    return {"cache": cache, "held": scattered(2 * groups), "wanted": scattered(groups)}


@bench.reference(tolerance=exact)
def reference(cache, held, wanted, world_size):
    pools = []
    for rank in range(world_size):
        pages = cache[rank - 1][held[rank - 1]]
        pool = torch.empty_like(pages)
        pool[wanted[rank]] = pages
        pools.append(pool)
    return pools


@bench.cost
def cost(groups, run, page_bytes, world_size):
    size = groups * run * page_bytes
    # Half of the cache need not be read, and a table has a number for each group that counts.
    return Cost(bytes_read=size + 16 * groups, bytes_written=size, wire_bytes=size if world_size > 1 else 0)


# A single element; with three ranks, primes and pages of no whole 8-byte words; groups of one page.
bench.awkward(
    {"groups": 1, "run": 1, "page_bytes": 2},
    {"groups": 7, "run": 5, "page_bytes": 202, "world_size": 3},
    {"groups": 11, "run": 1, "page_bytes": 104},
)
bench.accept(
    "cost.bytes_read",
    because="half of the cache is not handed over, and pages of a group are neighbours: one number says where",
)
cuda.reach(of="P2P", at_least=0.80, implementation="puts")
cpu.reach(of="time:per_page", at_most=0.67)


def words(cache):
    """The same memory in words of 8 bytes, where pages have whole ones: a copy needs as few accesses as it can."""
    return cache.view(torch.int64) if cache.shape[-1] % 4 == 0 else cache


class Handing:
    """Between this rank, the rank before and the rank after."""

    def prepare(self, cache, held, run, rank, world_size):
        self.after, self.before = (rank + 1) % world_size, (rank - 1) % world_size
        self.run_pages = int(run)
        self.shape = len(held), cache.shape[1]
        self.make_memory(cache)

    def make_memory(self, cache):
        """What a call fills; the pool is the output."""
        self.pool = cache.new_empty(self.shape)

    def hand(self, sent, received):
        """Start to send to the rank after and to receive from the rank before."""
        return exchange({self.after: sent}, {self.before: received})

    def in_messages(self, cache, held, wanted, pages):
        """Send messages of `pages` pages, from where they are to where they belong."""
        works = []
        for source, place in zip(held[::pages].tolist(), wanted[::pages].tolist(), strict=True):
            works += self.hand(cache[source : source + pages], self.pool[place : place + pages])
        wait_all(works)
        return self.pool


@both.baseline(kind="naive")
class PerPage(Handing):
    def run(self, cache, held, wanted):
        return self.in_messages(cache, held, wanted, 1)


@both.variant(adds="gather", why="one message for all pages, at the price of a copy at each end")
class Gathered(Handing):
    def make_memory(self, cache):
        super().make_memory(cache)
        self.out, self.incoming = (cache.new_empty(self.shape) for _ in range(2))

    def run(self, cache, held, wanted):
        torch.index_select(words(cache), 0, held, out=words(self.out))
        wait_all(self.hand(self.out, self.incoming))
        words(self.pool).index_copy_(0, wanted, words(self.incoming))
        return self.pool


@both.variant(adds="groups of pages", why="a message for all pages of a group, and no copy at either end")
class Grouped(Handing):
    def run(self, cache, held, wanted):
        return self.in_messages(cache, held, wanted, self.run_pages)


put_pages = register_peer_operation(
    "ch17_put_pages(Tensor cache, Tensor held, Tensor(a!) there) -> ()",
    lambda cache, held, there: torch.index_select(cache, 0, held, out=there),
)


@cuda.variant(
    adds="peer writes",
    why="one kernel takes the pages from where they are and writes them where they belong: no message and no copy",
)
class Puts(Handing):
    def make_memory(self, cache):
        self.pools = symmetric_buffers(*self.shape, dtype=cache.dtype)
        self.tables = symmetric_buffers(self.shape[0], dtype=torch.int64)

    def run(self, cache, held, wanted):
        # Of the pages in the order of the sender: which goes to the first place of the pool, to the second, ...
        put(self.tables.all[self.before], wanted.argsort())
        # Behind it every rank has begun its call, and does not read the pool of its last call any more.
        self.tables.barrier()
        put_pages(words(cache), held[self.tables.mine], words(self.pools.all[self.after]))
        # Behind it the pool is whole, and the table of this call was read.
        self.pools.barrier()
        return self.pools.mine
