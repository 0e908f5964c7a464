"""A GPU in two parts: a job of short steps and a batch job share it as two jobs share a machine, by cores.

Question    A job of short steps, each asked for when the one before is done, comes to a GPU that a batch job has filled
            with blocks that stay. What lets both go on, and what does it cost the batch?
Numbers     120 steps of 16 blocks and 7000 rounds of two dependent instructions: some 30 us each, 45 us with launch and
            wait, 5.4 ms in all. The batch has 11,264 tiles of 1024 elements and as many rounds, some 60 us a tile:
            85 for each of 132 multiprocessors, 5 ms.
Prediction  Blocks that stay end with the batch: the steps come behind it, 10.4 ms, whatever their priority. With 16
            multiprocessors of their own they run beside it, and the batch takes 132 / 116 as long: 1.6 to 1.9x. With
            half of them the batch takes twice as long, and nothing is gained.
Limits      Multiprocessors are what is divided: L2, memory and power are shared, so a batch that is bound by memory
            still slows the steps. A partition is idle when its job is. Blocks of a batch that end often need only a
            priority. Parts of other kinds (MIG, MPS) are settings of the machine.
"""

from typing import Any

import torch

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source
from aiperf_core.partitions import split_multiprocessors
from aiperf_core.recorded import Recording

bench = Benchmark(goal="throughput", clock="wall", cache="warm")
cuda = bench.on("cuda", requires=("sm_80", "compiler"))
device_code = cuda_source("sm_partition.cu")

STEP = 2.0**-7
THREADS, TILE = 256, 1024
STEP_BYTES, BATCH_BYTES = 104 << 10, 128 << 10  # of shared memory; the sum is more than a multiprocessor has
BATCH, STEPS = 1, 2  # their streams
FEW = 16  # multiprocessors of the steps, a block each

rounded_in_every_round = Tolerance(1e-4, reason="thousands of float32 rounds, each of which rounds twice")


@bench.workload(
    smoke={"n": 515, "batch": 9001, "steps": 3, "rounds": 40},
    cuda={"n": FEW * THREADS, "batch": 11264 * TILE, "steps": 120, "rounds": 7000},
    short_batch={"n": FEW * THREADS, "batch": 1056 * TILE, "steps": 120, "rounds": 7000},
)
def inputs(n, batch, device, generator):
    both = (("x", n), ("queued", batch))
    return {name: torch.randn(size, device=device, generator=generator) for name, size in both}


@bench.reference(tolerance=rounded_in_every_round)
def reference(x, queued, steps, rounds):
    factor = factor_of(rounds)
    return {"steps": x * (factor * sum_of_gains(steps)), "batch": queued * factor}


def factor_of(rounds):
    """The factor of all rounds. A round is a matrix: place and speed after it, of those before."""
    one = torch.tensor([[1 - STEP * STEP, STEP], [-STEP, 1]], dtype=torch.float64)
    return float(torch.linalg.matrix_power(one, int(rounds))[0, 0])


def sum_of_gains(steps):
    """The sum of the sizes of all steps, of which no two are alike."""
    return sum(1 / (1 + step) for step in range(int(steps)))


@bench.cost
def cost(n, batch, steps, rounds):
    both = 4 * (n + batch)
    flops = 4 * rounds * (n * steps + batch)
    return Cost(bytes_read=both, bytes_written=both, flops=flops, precision="fp32", launches=steps)


bench.awkward(
    {"n": 1, "batch": 1, "steps": 1},
    {"n": 257, "batch": TILE, "steps": 5, "rounds": 1},
    {"n": 4097, "batch": 3 * TILE + 1, "rounds": 129},
)
# The batch on 116 of 132 multiprocessors, and 3 % for the steps that begin with it.
cuda.reach(of="time:batch_alone,steps_alone", at_most=1.03 * 132 / 116, implementation="partition")
bench.sass("step", has="FFMA")


class Shared:
    """Both jobs: the batch first, and the steps as soon as it runs, which the host waits for one by one."""

    streams: Any

    def prepare(self, x, queued, n, batch, steps, rounds):
        chip: Any = torch.cuda.get_device_properties(x.device)
        if chip.shared_memory_per_block_optin < BATCH_BYTES:
            raise SkipError(f"needs {BATCH_BYTES} bytes of shared memory a block")
        self.total, self.out = torch.empty_like(x), torch.empty_like(queued)
        self.next = torch.zeros(1, dtype=torch.int32, device=x.device)
        self.running = torch.zeros(1, dtype=torch.int32, pin_memory=True)
        self.calls = Recording(self.streams())
        self.batch(self.running.data_ptr(), queued, self.out, self.next, rounds, batch)
        shape: dict[str, Any] = {"grid": -(-n // THREADS), "block": THREADS, "shared_bytes": STEP_BYTES}
        self.steps(steps, x, self.total, rounds, n, **shape)

    def batch(self, *given):
        """Record the batch, of a block for each multiprocessor; one without a place finds the queue empty later."""
        grid = torch.cuda.get_device_properties(self.out.device).multi_processor_count
        shape: dict[str, Any] = {"grid": grid, "block": TILE, "shared_bytes": BATCH_BYTES}
        self.calls.launch(device_code.kernel("batch"), *given, **shape, stream=BATCH)
        self.calls.await_flag(self.running)

    def steps(self, count, x, total, rounds, n, **shape):
        for number in range(count):
            self.calls.launch(device_code.kernel("step"), x, total, number, rounds, n, **shape, stream=STEPS)
            self.calls.finish(STEPS)

    def run(self):
        self.running.zero_()
        self.next.zero_()
        self.total.zero_()
        self.calls.play()
        return {"steps": self.total, "batch": self.out}


@cuda.baseline(kind="reasonable")
class SamePriority(Shared):
    def streams(self):
        return [torch.cuda.Stream(), torch.cuda.Stream()]


@cuda.variant(
    adds="priority",
    why="the next place that is free goes to a step, before blocks of the batch that wait",
    predict="0.98 to 1.02x: no block of the batch ends before the batch does",
    teaches="priority is for places that become free: beside blocks that stay there is none",
)
class HighPriority(Shared):
    def streams(self):
        return [torch.cuda.Stream(), torch.cuda.Stream(priority=-1)]


@cuda.variant(
    adds="green context",
    why="16 multiprocessors are kept for the steps, which go on beside the batch on the 116 others",
    predict="1.6 to 1.9x: the longer of 5.4 ms and 132 / 116 of 5 ms, in place of their sum",
)
class Partition(Shared):
    kept = FEW

    def streams(self):
        steps, batch = split_multiprocessors(self.kept)
        return [batch.stream(), steps.stream()]


@cuda.variant(
    builds_on="partition",
    adds="half of the chip",
    why="64 multiprocessors are kept for the steps, which fill 16 of them",
    predict="0.5 to 0.7x: the batch takes 132 / 68 of 5 ms, and 5.7 ms were enough",
    teaches="a partition is idle when its job is: give a job what its kernels fill",
)
class HalfPartition(Partition):
    kept = 64


@cuda.yardstick(why="the steps alone; the batch's answer comes by a formula, in one pass over its memory")
class StepsAlone(SamePriority):
    def batch(self, *given):
        _, self.queued, *_, rounds, _ = given
        self.factor = factor_of(rounds)

    def run(self):
        torch.mul(self.queued, self.factor, out=self.out)
        return super().run()


@cuda.yardstick(why="the batch alone; the steps' answer comes by a formula, of a few thousand elements")
class BatchAlone(SamePriority):
    def steps(self, count, x, total, rounds, n, **shape):
        self.x, self.factor = x, factor_of(rounds) * sum_of_gains(count)

    def run(self):
        answer = super().run()
        torch.mul(self.x, self.factor, out=self.total)
        return answer
