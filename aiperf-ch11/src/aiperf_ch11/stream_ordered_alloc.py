"""Allocation: memory that a stream gives back to itself needs neither the driver nor a wait.

Question    What does it cost to allocate scratch memory for every round of work, and to free it behind the round?
Numbers     8 streams take 20 rounds each. A round scales 64 MB into scratch memory and adds that to its stream's total:
            two kernels, 320 MB, 80 us at 4 TB/s. The host waits for all streams after every 10 rounds. The floor is a
            buffer for each stream, made ahead: 160 rounds share the memory's rate, 13 ms.
Prediction  cuMemFree waits until all streams are done, so no two rounds overlap, and each maps and unmaps 64 MB. A
            stream-ordered pool does that once in 10 rounds, and a pool that keeps its memory never: at most 1.1x the
            floor.
Limits      With 16 KB (`--size small`) the driver hands out parts of memory that it has mapped: only the wait in
            cuMemFree remains. A pool keeps memory that others cannot use: here 512 MB, what all streams use at once.
            Memory that goes from stream to stream needs an event in between, in a pool too.
"""

import os
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.recorded import Pool, Recording

bench = Benchmark(goal="speed", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda", requires="compiler"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("stream_ordered_alloc.cu"), host_source("stream_ordered_alloc.c")

THREADS = 256
WAIT_EVERY = 10  # rounds
EVERYTHING = (1 << 64) - 1  # bytes that a pool keeps


@bench.workload(
    smoke={"rounds": 11, "streams": 2, "n": 1021},
    cpu={"rounds": 24, "streams": 1, "n": 1 << 17},
    cuda={"rounds": 20, "streams": 8, "n": 1 << 24},
    small={"rounds": 100, "streams": 8, "n": 1 << 12},
)
def inputs(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(x, rounds, streams):
    total = torch.zeros(streams, len(x), device=x.device)
    for number in range(rounds):
        total += x * factor(number)
    return total


@bench.cost
def cost(rounds, streams, n):
    return Cost(bytes_read=4 * n, bytes_written=4 * streams * n, flops=2 * rounds * streams * n)


bench.awkward(
    {"rounds": 1, "streams": 1, "n": 1}, {"rounds": 3, "streams": 9, "n": 257}, {"rounds": 21, "streams": 1, "n": 70001}
)
# Two calls of the driver a round beside two launches, all of which the kernels hide.
cuda.reach(of="time:arena", at_most=1.1, implementation="kept_pool")


def factor(number):
    """What a round multiplies by; both signs, so that each of them counts."""
    return (-1) ** number / (1 + number)


class Rounds:
    """Two kernels a round on each stream, which take turns; `take` and `give_back` record what memory it has."""

    take: Any
    give_back: Any

    def prepare(self, x, rounds, streams, n):
        self.totals, self.calls = x.new_empty(streams, n), Recording(streams=1 + streams)
        self.make_ready()
        shape = {"grid": -(-n // THREADS), "block": THREADS}
        for number in range(rounds):
            for stream, total in enumerate(self.totals, 1):
                scratch = self.take(4 * n, stream)
                self.calls.launch(device_code.kernel("scale"), x, scratch, factor(number), n, stream=stream, **shape)
                self.calls.launch(device_code.kernel("add"), total, scratch, n, stream=stream, **shape)
                self.give_back(scratch, stream)
            for stream in range(1, 1 + streams) if number % WAIT_EVERY == WAIT_EVERY - 1 else ():
                self.calls.finish(stream)

    def make_ready(self):
        """Called once, before the rounds are recorded."""

    def run(self):
        self.totals.zero_()
        self.calls.play()
        return self.totals


@cuda.baseline(kind="naive", name="from_system")
class FromDriver(Rounds):
    pool: Pool | None = None

    def take(self, size, stream):
        return self.calls.allocate(size, stream=stream, pool=self.pool)

    def give_back(self, scratch, stream):
        self.calls.free(scratch, stream=stream)


@cuda.variant(
    adds="stream-ordered allocation",
    why="memory is free when the stream comes to it: no other stream waits, nor does the host",
)
class StreamOrdered(FromDriver):
    kept_bytes = 0

    def make_ready(self):
        self.pool = Pool(self.kept_bytes)


@cuda.variant(
    builds_on="stream_ordered",
    adds="kept pool",
    why="the pool keeps its memory where the host waits, so that the next round need not map it again",
)
class KeptPool(StreamOrdered):
    kept_bytes = EVERYTHING


@cuda.variant(adds="preallocation", why="nothing is asked for: a stream uses its own buffer in every round")
class Arena(Rounds):
    def make_ready(self):
        self.buffers = torch.empty_like(self.totals)

    def take(self, size, stream):
        return self.buffers[stream - 1]

    def give_back(self, scratch, stream):
        """The buffer is the stream's."""


class Loops:
    """The rounds as a loop in C."""

    loop = ""

    def prepare(self, x, rounds, streams):
        self.total, self.rounds = x.new_empty(streams, len(x)), host_code.function(self.loop)
        self.factors = torch.tensor([factor(number) for number in range(rounds)])
        self.scratch = torch.zeros_like(x)

    def run(self, x, rounds, n):
        for total in self.total.zero_():
            failed = self.rounds(x, total, self.factors, *self.given(), rounds, n)
            if failed:
                raise OSError(failed, f"memory for a round: {os.strerror(failed)}")
        return self.total

    def given(self):
        """Further arguments of the loop."""
        return ()


@cpu.baseline(kind="naive")
class FromSystem(Loops):
    loop = "from_system"


@cpu.variant(
    adds="pool", why="pages are cleared and mapped in the first round, and not again in the others", name="pool"
)
class PoolOfPages(Loops):
    loop = "pool"


@cpu.variant(adds="preallocation", why="nothing is asked for: every round uses the same buffer")
class Preallocated(Loops):
    loop = "preallocated"

    def given(self):
        return (self.scratch,)
