"""Small all-reduce: pick the algorithm by the size of the message.

Question    Which all-reduce of 1 KiB to 64 MiB is fastest on GPUs that can write each other's memory?

Numbers     Each rank has n bfloat16 numbers and receives the sums of all ranks in place. 64 KiB; `--size tiny` is 1
            KiB, `--size medium` 1 MiB, `--size large` 64 MiB. At 380 GB/s 64 KiB take 0.2 us, 1 MiB 3 us, 64 MiB 180
            us; a write that a peer has seen takes 1 to 2 us, whatever its size. On a CPU the transport is gloo.

Prediction  Up to some 100 KiB the number of exchanges counts: one shot, one exchange of n - 1 times the bytes. Above,
            bytes count: two shots, two exchanges of 2 (n - 1) / n times the bytes. Their words carry a sequence number
            each, which doubles the bytes and spares every flag. From 4 MiB on, a flag for 32 KiB is cheaper.

Limits      No rank waits at a barrier, so all blocks of a kernel must run at once. GPUs without peer access. All
            variants but the library's all-reduce add in the order of the ranks, so that all hold the same bits.
"""

import contextlib
import time
from typing import Any

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.distributed import (
    all_gather,
    exchange,
    register_peer_operation,
    symmetric_buffers,
    wait_all,
    world_group,
)
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills

bench = Benchmark(
    goal="latency",
    clock="device",
    cache="warm",
    no_gain_on={
        "cpu": "two processes of one machine have no link to spare, and a message costs the same whatever its size"
    },
)
cpu, cuda = bench.on("cpu"), bench.on("cuda", requires=("gpus:2", "sm_80"))
source = cuda_source("allreduce_small.cu")

# All but the third as in `allreduce_small.cu`. Blocks wait for those of other ranks, so that all must run at once: at
# two on a multiprocessor, GPUs with 48 of them.
WORD, THREADS, MOST_BLOCKS, MOST_RANKS = 4, 256, 96, 8
BLOCKS_PER_SM, AHEAD, PIECES = 2, 4, 8
# `two_shot` sends twice the bytes: at 380 GB/s that is 11 us for 4 MiB, several waits of 1 to 2 us for a flag.
LEAST_PIPELINED, WHOLE = 1 << 21, 8
# `auto` times ROUNDS times so many calls of each. So long, in cycles, GPUs wait until the host has queued them all.
ROUNDS, CALLS, QUEUEING_CYCLES = 3, 20, 4_000_000


@bench.workload(
    state=["x"],
    smoke={"n": 1009, "world_size": 2},
    cpu={"n": 1 << 15, "world_size": 2},
    cuda={"n": 1 << 15, "world_size": 2},
    tiny={"n": 1 << 9, "world_size": 2},
    medium={"n": 1 << 19, "world_size": 2},
    large={"n": 1 << 25, "world_size": 2},
)
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator).bfloat16()}


@bench.reference(tolerance=bf16)
def reference(x):
    total = sum(x[1:], x[0])
    return [total for _ in x]


@bench.cost
def cost(n, world_size):
    # Of each sum a rank computes its share (Thakur, Rabenseifner and Gropp, Optimization of Collective Communication
    # Operations in MPICH, 2005).
    share = (world_size - 1) / world_size
    # The least that a rank sends is 2 (n - 1) / n of its data (Patarasuk and Yuan, Bandwidth Optimal All-reduce
    # Algorithms for Clusters of Workstations, 2009).
    return Cost(bytes_read=2 * n, bytes_written=2 * n, flops=n * share, precision="bf16", wire_bytes=4 * n * share)


# The last one is large enough for `pipelined`.
bench.awkward({"n": 1}, {"n": 8197, "world_size": 3}, {"n": LEAST_PIPELINED + 5})
bench.reach(of="time:library", at_most=0.6)
for size in (None, "tiny", "medium", "large"):
    bench.reach(of="time:library", at_most=1.05, implementation="auto", size=size)
bench.reach(of="P2P", at_least=0.8, implementation="auto", size="large")


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def library(x):
    dist.all_reduce(x)
    return x


@cpu.variant(
    name="one_shot", adds="single exchange", why="one message to each rank; no rank waits for sums of another rank"
)
class OneShotMessages:
    def prepare(self, x, rank, world_size):
        self.parts = torch.empty(world_size, x.numel(), dtype=x.dtype)
        self.others = [other for other in range(world_size) if other != rank]

    def run(self, x, rank):
        self.parts[rank] = x
        wait_all(exchange(dict.fromkeys(self.others, x), {other: self.parts[other] for other in self.others}))
        return x.copy_(add_up(self.parts))


@cpu.variant(name="two_shot", adds="shares", why="a rank adds and sends a share of the data instead of all of it")
class TwoShotMessages:
    def prepare(self, x, rank, world_size):
        share = -(-x.numel() // world_size)
        self.padded = torch.zeros(world_size * share, dtype=x.dtype)
        self.parts = torch.empty(world_size, share, dtype=x.dtype)

    def run(self, x, rank):
        self.padded[: x.numel()] = x
        dist.all_to_all_single(self.parts, self.padded.view_as(self.parts))
        all_gather(self.padded, add_up(self.parts))
        return x.copy_(self.padded[: x.numel()])


def add_up(parts):
    """The sum over the first dimension, in its order and in float32, rounded once."""
    total = parts[0].float()
    for part in parts[1:]:
        total += part
    return total.to(parts.dtype)


def refuse_many_ranks(world_size):
    """Skip an implementation where there are more ranks than its kernel is written for."""
    if world_size > MOST_RANKS:
        raise SkipError(f"needs at most {MOST_RANKS} ranks; these are {world_size}")


class PeerKernel:
    """A kernel that writes into the memory of all ranks, in rounds of as many words as the grid has threads."""

    launch: Any
    exchanges: int  # in a round

    def prepare(self, x, rank, world_size):
        refuse_many_ranks(world_size)
        words = -(-x.numel() // WORD)
        share = words if self.exchanges == 1 else -(-words // world_size)
        blocks = min(MOST_BLOCKS, -(-share // THREADS))
        rounds = -(-share // (blocks * THREADS))
        self.place = rank, world_size, blocks, rounds
        # Two inboxes; of 16 bytes that a thread sends half are data.
        self.inboxes = symmetric_buffers(2, world_size, blocks * THREADS, 2, dtype=torch.int64)
        self.inbox = self.inboxes.mine[0]
        for name in source.names():
            source.kernel(name)  # compiled here, not in the first call
        self.number = 1  # of the next exchange, as all ranks count them; an inbox of zeros has messages of none

    def run(self, x, rank):
        self.launch(x, self.inbox, self.inboxes.addresses, *self.place, self.number)
        self.number += self.exchanges * self.place[-1]
        return x


def launch(kernel, x, addresses, rank, world, blocks, rounds, number):
    """Launch a kernel of `allreduce_small.cu`."""
    source.launch(kernel, x, addresses, x.numel(), rank, world, rounds, number, grid=blocks, block=THREADS)


PLACE = "Tensor addresses, int rank, int world, int blocks, int rounds, int number) -> ()"
# `inbox` is what one exchange fills.
one_shot_kernel, two_shot_kernel = (
    register_peer_operation(
        f"ch04_{name}(Tensor(a!) x, Tensor(b!) inbox, {PLACE}",
        lambda x, inbox, *place, name=name: launch(name, x, *place),
    )
    for name in ("one_shot", "two_shot")
)
pipelined_kernel = register_peer_operation(
    f"ch04_pipelined(Tensor(a!) x, {PLACE}", lambda *given: launch("pipelined", *given)
)


@cuda.variant(
    name="one_shot",
    adds=("peer memory", "single exchange"),
    why="one launch, in which data go one way once; in the library's ring or tree they go several times",
)
class OneShotKernel(PeerKernel):
    launch = staticmethod(one_shot_kernel)
    exchanges = 1


@cuda.variant(
    name="two_shot",
    adds=("peer memory", "shares"),
    why="a rank receives and adds a share instead of everything, for one more exchange",
)
class TwoShotKernel(PeerKernel):
    launch = staticmethod(two_shot_kernel)
    exchanges = 2


@cuda.variant(
    builds_on="two_shot",
    adds="parts in flight",
    why="a flag for 32 KiB instead of one for every word; while a part is added, the next ones are on their way",
)
class Pipelined:
    def prepare(self, x, rank, world_size):
        if x.numel() < LEAST_PIPELINED:
            raise SkipError(f"needs {LEAST_PIPELINED} numbers or more, to hide waits for flags; these are {x.numel()}")
        refuse_many_ranks(world_size)
        per_part, lines = PIECES * THREADS, -(-x.numel() // (2 * WORD))
        share = -(-lines // world_size)
        kernel = source.kernel("pipelined")  # compiled here, not in the first call
        at_once = grid_that_fills(kernel, THREADS, per_multiprocessor=BLOCKS_PER_SM)
        blocks = min(at_once, -(-share // per_part))
        self.place = rank, world_size, blocks, -(-share // (blocks * per_part))
        # Parts of 16 bytes a line that were scattered and gathered, and flags of four bytes.
        parts = 2 * AHEAD * world_size * blocks * per_part
        self.peers = symmetric_buffers(2 * parts + world_size * blocks, dtype=torch.int64)
        self.number = 1  # of the next step, as all ranks count them

    def run(self, x, rank):
        pipelined_kernel(x, self.peers.addresses, *self.place, self.number)
        self.number += self.place[-1]
        return x


class Library:
    def prepare(self, x, rank, world_size):
        pass

    def run(self, x, rank):
        return library(x)


class Auto:
    """The fastest of the implementations that take the size of the call: all time them, and the slowest rank counts."""

    candidates: tuple[type, ...]

    def prepare(self, x, rank, world_size):
        zeros, times, ready = torch.zeros_like(x), [], []
        for candidate in [candidate() for candidate in self.candidates]:
            with contextlib.suppress(SkipError):  # the same sizes, and so the same candidates, on all ranks
                candidate.prepare(x, rank, world_size)
                ready.append(candidate)
        for candidate in ready:
            candidate.run(zeros, rank)  # makes connections
            times.append(min(timed(candidate, zeros, rank) for _ in range(ROUNDS)))
        slowest = torch.tensor(times, dtype=torch.float64, device=x.device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        self.chosen = ready[int(slowest.argmin())]

    def run(self, x, rank):
        return self.chosen.run(x, rank)


def timed(candidate, x, rank):
    """Seconds of some calls in a row that begin together on all ranks; on a GPU without the host's time."""
    dist.barrier()
    if x.device.type == "cpu":
        start = time.perf_counter()
        for _ in range(CALLS):
            candidate.run(x, rank)
        return time.perf_counter() - start
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(QUEUEING_CYCLES)
    first.record()
    for _ in range(CALLS):
        candidate.run(x, rank)
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1000


@cpu.variant(name="auto", adds="measured choice", why="which algorithm is fastest depends on the size of the message")
class AutoMessages(Auto):
    candidates = Library, OneShotMessages, TwoShotMessages


@cuda.variant(name="auto", adds="measured choice", why="which algorithm is fastest depends on the size of the message")
class AutoKernel(Auto):
    candidates = Library, OneShotKernel, TwoShotKernel, Pipelined


@bench.yardstick(device="cuda", requires="gpus:2", why="the one-shot operation of torch's symmetric memory, one launch")
class SymmMem:
    def prepare(self, x):
        if x.numel() % WHOLE:
            raise SkipError(f"needs a multiple of {WHOLE} numbers: 16 bytes; these are {x.numel()}")
        self.peers = symmetric_buffers(x.numel(), dtype=x.dtype)
        self.group = world_group().group_name

    def run(self, x):
        # It copies x into the symmetric buffer itself, and waits for slow peers at its end.
        return torch.ops.symm_mem.one_shot_all_reduce_copy_out(self.peers.mine, x, "sum", self.group, x)
