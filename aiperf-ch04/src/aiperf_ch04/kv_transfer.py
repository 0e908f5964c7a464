"""KV transfer: hand a paged cache from the rank that made it to the one that goes on with it.

Workload   Each rank has the cache of a prompt, `blocks` blocks of `block_bytes` in each of `layers` layers, scattered
           over a pool of twice as many (bfloat16). The next rank, in a ring, needs it in a pool of its own, in blocks
           of its own choice: its table is not known to the sender. Each rank shall hold its pool with what the rank
           before had, and the rest as it was.
Baseline   On GPUs, over the hosts: the blocks are gathered and copied to the host, sent by gloo, and copied to the GPU.
           On a processor `per_block`.
Variants   `per_block` (cuda): a message for each block of each layer.  `gathered`: blocks are copied together, sent at
           once, and dealt out.  `by_layer`: a message a layer, so that one is gathered while another is sent.  `puts`
           (cuda): what gathers the blocks writes them into memory of the peer.
Breaks     Blocks of a megabyte: then a message each is bandwidth already.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.distributed import exchange, register_peer_operation, symmetric_buffers, wait_all

bench = Benchmark(goal="latency", clock="wall")


@bench.workload(
    state=["pool"],
    smoke={"layers": 3, "blocks": 5, "block_bytes": 74, "world_size": 2},
    cpu={"layers": 4, "blocks": 32, "block_bytes": 1 << 16, "world_size": 2},
    # Of 8192 tokens, 16 a block, each with keys and values of 8 heads of 128.
    cuda={"layers": 32, "blocks": 512, "block_bytes": 1 << 16, "world_size": 2},
)
def inputs(layers, blocks, block_bytes, device, generator):
    shape = 2, layers, 2 * blocks, block_bytes // 2
    cache, pool = torch.randn(shape, device=device, generator=generator).bfloat16()
    held, wanted = (torch.randperm(2 * blocks, device=device, generator=generator)[:blocks] for _ in range(2))
    return {"cache": cache, "held": held, "pool": pool, "wanted": wanted}


@bench.reference(tolerance=exact)
def reference(cache, held, pool, wanted, world_size):
    pools = [one.clone() for one in pool]
    for rank in range(world_size):
        before = rank - 1
        pools[rank][:, wanted[rank]] = cache[before][:, held[before]]
    return pools


@bench.cost
def cost(layers, blocks, block_bytes, world_size):
    size = layers * blocks * block_bytes
    # The pool's other blocks need not be touched. Each rank sends its whole cache; a rank that is alone sends nothing.
    return Cost(bytes_read=size + 16 * blocks, bytes_written=size, wire_bytes=size if world_size > 1 else 0)


class Handing:
    """Between this rank, the one before and the one after."""

    def prepare(self, cache, held, rank, world_size):
        self.after, self.before = (rank + 1) % world_size, (rank - 1) % world_size
        self.alone = world_size == 1

    def hand(self, sent, received):
        """Start to send to the rank after and to receive from the one before."""
        if self.alone:
            received.copy_(sent)
            return []
        return exchange({self.after: sent}, {self.before: received})


@bench.variant(device="cuda", requires="gpus:2", name="per_block", why="no host between the GPUs, though many messages")
@bench.baseline(device="cpu", kind="naive", name="per_block")
class PerBlock(Handing):
    def run(self, cache, held, pool, wanted):
        works = []
        for source, place in zip(held.tolist(), wanted.tolist(), strict=True):
            for sent, received in zip(cache[:, source], pool[:, place], strict=True):
                works += self.hand(sent, received)
        wait_all(works)
        return pool


@bench.baseline(device="cuda", requires="gpus:2", kind="naive")
class ThroughHosts(Handing):
    def prepare(self, cache, held, rank, world_size):
        super().prepare(cache, held, rank, world_size)
        shape = len(cache), len(held), cache.shape[2]
        self.out, self.incoming = (torch.empty(shape, dtype=cache.dtype, pin_memory=True) for _ in range(2))

    def run(self, cache, held, pool, wanted):
        self.out.copy_(cache[:, held])
        wait_all(self.hand(self.out, self.incoming))
        pool[:, wanted] = self.incoming.to(pool.device)
        return pool


class Gathering(Handing):
    def prepare(self, cache, held, rank, world_size):
        super().prepare(cache, held, rank, world_size)
        self.out, self.incoming = (cache.new_empty(len(cache), len(held), cache.shape[2]) for _ in range(2))


@bench.variant(device=("cpu", "cuda"), why="one message, for a copy at each end")
class Gathered(Gathering):
    def run(self, cache, held, pool, wanted):
        torch.index_select(cache, 1, held, out=self.out)
        wait_all(self.hand(self.out, self.incoming))
        return pool.index_copy_(1, wanted, self.incoming)


@bench.variant(device=("cpu", "cuda"), builds_on="gathered", why="the copies of one layer run while another is sent")
class ByLayer(Gathering):
    def run(self, cache, held, pool, wanted):
        works = []
        for layer, out, incoming in zip(cache, self.out, self.incoming, strict=True):
            torch.index_select(layer, 0, held, out=out)
            works.append(self.hand(out, incoming))
        for work, layer, incoming in zip(works, pool, self.incoming, strict=True):
            wait_all(work)
            layer.index_copy_(0, wanted, incoming)
        return pool


put = register_peer_operation(
    "ch04_put_blocks(Tensor cache, Tensor held, Tensor(a!) there) -> ()",
    lambda cache, held, there: torch.index_select(cache, 1, held, out=there),
)


@bench.variant(
    device="cuda",
    requires="gpus:2",
    builds_on="gathered",
    why="the gather writes into the peer's memory: no message, and one copy less",
)
class Puts(Handing):
    def prepare(self, cache, held, rank, world_size):
        super().prepare(cache, held, rank, world_size)
        self.incoming = symmetric_buffers(len(cache), len(held), cache.shape[2], dtype=cache.dtype)

    def run(self, cache, held, pool, wanted):
        put(cache, held, self.incoming.all[self.after])
        self.incoming.barrier()
        pool.index_copy_(1, wanted, self.incoming.mine)
        self.incoming.barrier()  # the next call writes where this one reads
        return pool
