"""Small all-reduce: pick the algorithm by the size of the message.

Workload   Each rank has n bfloat16 numbers; all ranks shall hold their sums, in place. 64 KiB; `--size tiny` is 1 KiB,
           `--size large` 64 MiB. On a processor the ranks talk through gloo.
Baseline   The library's all-reduce with its defaults, which picks an algorithm itself.
Variants   `one_shot`: every rank reads what all others have and adds: one meeting, n - 1 times the bytes.  `two_shot`: each
           rank adds a share for all, then fetches the other shares: two meetings, 2 (n - 1) / n times the bytes.  `auto`:
           one of them or the library, by size. On GPUs they are kernels that read the peers' memory; on a processor
           messages. Sums are made in the order of the ranks, so that all ranks hold the same bits.
Yardstick  `symm_mem` (cuda): the one-shot operation that comes with torch's symmetric memory.
Breaks     Messages of many megabytes: there the bytes count and not the meetings, and `one_shot` moves most. GPUs that
           cannot read each other's memory.
"""

from typing import Any

import torch
import torch.distributed as dist

from aiperf_ch04.collectives import all_gather, exchange, wait_for
from aiperf_ch04.peers import everyone, open_peers, register
from aiperf_core import Benchmark, Cost, bf16
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source

bench = Benchmark(
    goal="latency",
    clock="device",
    cache="warm",
    no_gain_on={
        "cpu": "two processes of one machine have no link to spare, and a message costs the same whatever its size"
    },
)
source = cuda_source("allreduce_small.cu")

WORD, THREADS, MOST_BLOCKS, MOST_RANKS = 8, 512, 64, 8
# Up to these bytes `auto` takes one shot, then two, then the library.
ONE_SHOT_BYTES, TWO_SHOT_BYTES = 1 << 18, 1 << 24


@bench.workload(
    state=["x"],
    smoke={"n": 1009, "world_size": 2},
    cpu={"n": 1 << 15, "world_size": 2},
    cuda={"n": 1 << 15, "world_size": 2},
    tiny={"n": 1 << 9, "world_size": 2},
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
    return Cost(bytes_read=2 * n, bytes_written=2 * n, flops=n * share, precision="bf16", wire_bytes=4 * n * share)


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def library(x):
    dist.all_reduce(x)
    return x


@bench.variant(device="cpu", name="one_shot", why="one message to each rank, and none waits for a sum made elsewhere")
class OneShotMessages:
    def prepare(self, x, rank, world_size):
        self.parts = torch.empty(world_size, x.numel(), dtype=x.dtype)
        self.others = [one for one in range(world_size) if one != rank]

    def run(self, x, rank):
        self.parts[rank] = x
        wait_for(exchange(dict.fromkeys(self.others, x), {one: self.parts[one] for one in self.others}))
        return x.copy_(add_up(self.parts))


@bench.variant(device="cpu", name="two_shot", why="a rank adds and sends a share instead of everything")
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
    for one in parts[1:]:
        total += one
    return total.to(parts.dtype)


class PeerKernel:
    """A kernel that reads the memory of all ranks; calls take turns between two halves of the buffers."""

    launch: Any

    def prepare(self, x, rank, world_size):
        if world_size > MOST_RANKS:
            raise SkipError(f"needs at most {MOST_RANKS} ranks; these are {world_size}")
        words = -(-x.numel() // WORD)
        share = words if self.launch is one_shot_kernel else -(-words // world_size)
        self.place = rank, world_size, min(MOST_BLOCKS, -(-share // THREADS))
        self.buffers = open_peers(2, words * WORD, dtype=x.dtype)
        self.flags = open_peers(MOST_BLOCKS * MOST_RANKS, dtype=torch.int32)
        for name in source.names():
            source.kernel(name)  # compiled here, not in the first call
        self.calls = 0

    def run(self, x, rank):
        self.calls += 1
        self.launch(x, self.buffers.mine, self.buffers.addresses, self.flags.addresses, *self.place, self.calls)
        return x


def launch(kernel, x, buffer, buffers, flags, rank, world, blocks, call):
    """Launch a kernel of `allreduce_small.cu`; each call has two epochs."""
    first = call % 2 * (buffer.shape[1] // WORD)
    source.launch(kernel, x, buffers, flags, x.numel(), first, rank, world, 2 * call, grid=blocks, block=THREADS)


ARGUMENTS = (
    "(Tensor(a!) x, Tensor(b!) buffer, Tensor buffers, Tensor flags, int rank, int world, int blocks, int call) -> ()"
)
one_shot_kernel = register(f"ch04_one_shot{ARGUMENTS}", lambda *given: launch("one_shot", *given))
two_shot_kernel = register(f"ch04_two_shot{ARGUMENTS}", lambda *given: launch("two_shot", *given))


@bench.variant(
    device="cuda",
    requires=("gpus:2", "sm_80"),
    name="one_shot",
    why="one launch, in which the ranks meet once; the library's ring or tree meets more often",
)
class OneShotKernel(PeerKernel):
    launch = staticmethod(one_shot_kernel)


@bench.variant(
    device="cuda",
    requires=("gpus:2", "sm_80"),
    name="two_shot",
    why="a rank reads and adds a share instead of everything, for one more meeting",
)
class TwoShotKernel(PeerKernel):
    launch = staticmethod(two_shot_kernel)


class Auto:
    """One of the others, by the bytes that one shot would read."""

    shots: tuple[type, type]

    def prepare(self, x, rank, world_size):
        read = x.numel() * x.element_size() * (world_size - 1)
        self.steps = None if read > TWO_SHOT_BYTES else self.shots[read > ONE_SHOT_BYTES]()
        if self.steps:
            self.steps.prepare(x, rank, world_size)

    def run(self, x, rank):
        return self.steps.run(x, rank) if self.steps else library(x)


@bench.variant(device="cpu", name="auto", why="few bytes want few meetings, and many bytes want to move once")
class AutoMessages(Auto):
    shots = OneShotMessages, TwoShotMessages


@bench.variant(
    device="cuda",
    requires=("gpus:2", "sm_80"),
    name="auto",
    why="few bytes want few meetings, and many bytes want to move once",
)
class AutoKernel(Auto):
    shots = OneShotKernel, TwoShotKernel


@bench.yardstick(device="cuda", requires="gpus:2", why="the one-shot operation of torch's symmetric memory")
class SymmMem:
    def prepare(self, x):
        # The operation wants whole words.
        self.peers = open_peers(-(-x.numel() // WORD) * WORD, dtype=x.dtype)
        self.mine = self.peers.mine[: x.numel()]

    def run(self, x):
        self.mine.copy_(x)
        x.copy_(torch.ops.symm_mem.one_shot_all_reduce(self.peers.mine, "sum", everyone().group_name)[: x.numel()])
        self.peers.barrier()  # the next call overwrites what a slow peer may still read
        return x
