"""Priorities: a stream that goes first gets the next place on the chip, and no block gives up its own.

Question    Short kernels are asked for one by one, as by a decoder, while another stream keeps the GPU full, as a
            prompt does. How long does the caller wait for each of them, and what shortens it?
Numbers     40 short kernels of 16 blocks and 7000 rounds of two dependent instructions, some 30 us, each launched when
            the one before is done: some 45 us with launch and wait. Kernels of the background, one after another, have
            8 blocks for each of 132 multiprocessors, some 60 us a block and 470 us a kernel.
Prediction  At equal priority a short kernel waits until the last block of a long one has a place, up to 400 us. With
            priority it waits for one block to end, 60 us at most; with blocks of a quarter, 15 us. Multiprocessors of
            its own wait for nobody.
Limits      Blocks that stay until all work is done: priority then never gets a turn (`ch03.sm_partition`). A partition
            takes 16 of 132 multiprocessors, 12 %, from the background, used or not: compare `until done`. Blocks of a
            few us pay for their start and end.
"""

from typing import Any

import torch

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source
from aiperf_core.partitions import split_multiprocessors
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="cold", deferred=True)
cuda = bench.on("cuda", requires=("sm_80", "compiler"))
device_code = cuda_source("stream_priority.cu")

STEP, EACH = 2.0**-7, 4  # elements of a thread of the background, each a quarter of the rounds
THREADS, BUSY_THREADS = 256, 1024
SHORT_BYTES, LONG_BYTES = 104 << 10, 128 << 10  # of shared memory; the sum is more than a multiprocessor has
BEHIND, BEFORE = 1, 2  # the streams of the background and of the short kernels
AHEAD = 2  # kernels of the background before the first short one

rounded_in_every_round = Tolerance(1e-4, reason="thousands of float32 rounds, each of which rounds twice")


@bench.workload(
    smoke={"n": 515, "steps": 3, "rounds": 40, "busy_n": 9001},
    cuda={"n": 16 * THREADS, "steps": 40, "rounds": 7000, "busy_n": 8 * 132 * EACH * BUSY_THREADS},
    short_kernels={"n": 16 * THREADS, "steps": 40, "rounds": 700, "busy_n": 8 * 132 * EACH * BUSY_THREADS},
)
def inputs(n, busy_n, device, generator):
    return {name: torch.randn(size, device=device, generator=generator) for name, size in (("x", n), ("busy", busy_n))}


@bench.reference(tolerance=rounded_in_every_round)
def reference(x, busy, steps, rounds):
    return {"total": swung(x, steps, rounds), "busy": swung(busy, steps + AHEAD, rounds // EACH)}


def swung(x, steps, rounds):
    """The total of all steps. A round is a matrix: place and speed after it, of those before."""
    one = torch.tensor([[1 - STEP * STEP, STEP], [-STEP, 1]], dtype=x.dtype, device=x.device)
    return x * torch.linalg.matrix_power(one, int(rounds))[0, 0] * sum(1 / (1 + step) for step in range(int(steps)))


@bench.cost
def cost(n, steps, rounds, busy_n):
    # The caller waits for the short kernels alone, of which the operations are.
    both = 4 * (n + busy_n)
    return Cost(bytes_read=both, bytes_written=both, flops=4 * n * steps * rounds, precision="fp32", launches=steps)


bench.awkward(
    {"n": 1, "steps": 1, "busy_n": 1},
    {"n": 257, "steps": 5, "rounds": 4, "busy_n": 4096},
    {"n": 4097, "rounds": 129, "busy_n": 12289},
)
# A block of 60 us before each kernel of 45 us; with its own multiprocessors, nothing but L2 and power is shared.
cuda.reach(of="time:alone", at_most=1 + 60 / 45, implementation="high_priority")
cuda.reach(of="time:alone", at_most=1.2, implementation="partition")
bench.sass("foreground", has="FFMA")


class Beside:
    """Short kernels, which the host waits for one by one, while the background always has its next kernel queued."""

    each = EACH  # elements of a thread of the background
    streams: Any

    def prepare(self, x, busy, n, steps, rounds, busy_n):
        chip: Any = torch.cuda.get_device_properties(x.device)
        if chip.shared_memory_per_block_optin < LONG_BYTES:
            raise SkipError(f"needs {LONG_BYTES} bytes of shared memory a block")
        self.total, self.busy = torch.empty_like(x), torch.empty_like(busy)
        self.running = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.calls = Recording(self.streams())
        behind = self.running.data_ptr(), busy, self.busy
        for step in range(AHEAD):
            self.behind(*behind, step, rounds // EACH, self.each, busy_n)
        self.await_background()
        shape = {"grid": -(-n // THREADS), "block": THREADS, "shared_bytes": SHORT_BYTES, "stream": BEFORE}
        for step in range(steps):
            self.behind(*behind, AHEAD + step, rounds // EACH, self.each, busy_n)
            self.calls.launch(device_code.kernel("foreground"), x, self.total, step, rounds, n, **shape)
            self.calls.finish(BEFORE)

    def behind(self, *given):
        shape = {"grid": -(-given[-1] // (BUSY_THREADS * self.each)), "block": BUSY_THREADS, "stream": BEHIND}
        self.calls.launch(device_code.kernel("background"), *given, **shape, shared_bytes=LONG_BYTES)

    def await_background(self):
        """Let the host wait until the background runs, so that no short kernel finds the chip empty."""
        self.calls.await_flag(self.running)

    def run(self):
        self.running.zero_()
        self.total.zero_()
        self.busy.zero_()
        self.calls.play()

    def finish(self):
        torch.cuda.synchronize()

    def output(self):
        return {"total": self.total, "busy": self.busy}


@cuda.baseline(kind="reasonable")
class SamePriority(Beside):
    def streams(self):
        return [torch.cuda.Stream(), torch.cuda.Stream()]


@cuda.variant(
    adds="priority",
    why="the next place that is free goes to a block of the short kernel, before those of the long one that wait",
    predict="2 to 7x: 200 to 450 us until a kernel has its turn and is done, against 45 us and one block of 60 us",
)
class HighPriority(Beside):
    def streams(self):
        return [torch.cuda.Stream(), torch.cuda.Stream(priority=-1)]


@cuda.variant(
    builds_on="high_priority",
    adds="short blocks",
    why="four times as many blocks of the background, each with a quarter of the work: a place is free sooner",
    predict="1.1 to 1.8x: 15 us for a block in place of 60 us, beside 45 us",
)
class ShortBlocks(HighPriority):
    each = 1


@cuda.variant(
    adds="green context",
    why="16 multiprocessors are kept for the short kernels, and the background never has a block there",
    predict="4 to 11x: 45 us a step in place of 200 to 450 us",
)
class Partition(Beside):
    def streams(self):
        few, rest = split_multiprocessors(16)
        return [rest.stream(), few.stream()]


@cuda.yardstick(why="the short kernels alone: the background begins when the last of them is done")
class Alone(SamePriority):
    def prepare(self, x, busy, n, steps, rounds, busy_n):
        self.later: list[Any] = []
        super().prepare(x, busy, n, steps, rounds, busy_n)
        for launch in self.later:
            super().behind(*launch)

    def behind(self, *given):
        self.later.append(given)

    def await_background(self):
        """The chip is empty."""
