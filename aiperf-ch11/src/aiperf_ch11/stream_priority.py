"""Priority: an urgent kernel goes before all blocks that wait, and behind all that run.

Question    Short jobs come while long kernels fill the chip. How long do they wait, and for what?
Numbers     20 jobs one after another, each a kernel of 132 blocks of 29 us, beside 32 kernels of 1056 blocks of 77 us.
            A block of either has 80 KB of shared memory, so an SM holds two: a long kernel is four waves, 0.31 ms, and
            a job finds no place before a block has ended. The time is that of the caller, who waits for all jobs.
Prediction  At the same priority a job waits for the blocks that came before, half of 0.31 ms on average. With a high
            one it waits for blocks that run, 40 us on average. A background that is cut into launches of an eighth has
            blocks of 10 us: 5 us of waiting beside 29 us.
Limits      A priority preempts nothing. Jobs that need a place on all SMs at once wait for the slowest of them. A
            background in parts pays a launch and a wave's end for each: parts far below 10 us are nothing else.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.kernels import cuda_source
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="cold", deferred=True)
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source("stream_priority.cu")

THREADS, SHARED = 128, 80 << 10  # threads and bytes of shared memory of a block
ROUND, PARTS = 2.0**-7, 8
BEHIND, BEFORE = 1, 2  # streams: of the background, and of jobs

rounded_in_every_round = Tolerance(
    1e-4, reason="up to 8192 float32 rounds, whose errors shift the phase of an oscillation"
)


@bench.workload(
    smoke={"launches": 3, "blocks": 5, "rounds": 16, "jobs": 2, "job_blocks": 3, "job_rounds": 3},
    cuda={"launches": 32, "blocks": 1056, "rounds": 8192, "jobs": 20, "job_blocks": 132, "job_rounds": 3072},
)
def inputs(blocks, job_blocks, device, generator):
    def places(count):
        return torch.rand(count * THREADS, device=device, generator=generator) - 0.5

    return {"x": places(blocks), "job": places(job_blocks)}


@bench.reference(tolerance=rounded_in_every_round)
def reference(x, job, launches, rounds, jobs, job_rounds):
    return {"background": after(x, launches, rounds), "jobs": after(job, jobs, job_rounds)}


def after(x, launches, rounds):
    """The places of each launch after its rounds."""
    place = (
        x * torch.tensor([factor(launch) for launch in range(int(launches))], dtype=x.dtype, device=x.device)[:, None]
    )
    speed = torch.zeros_like(place)
    for _ in range(int(rounds)):
        speed -= ROUND * (place * place * place + place)
        place += ROUND * speed
    return place


def factor(launch):
    """What a launch multiplies its places by."""
    return 1 + launch / 64


@bench.cost
def cost(blocks, job_blocks, launches, rounds, jobs, job_rounds):
    # The caller waits for the jobs alone, of which the operations are.
    behind, job = THREADS * blocks, THREADS * job_blocks
    return Cost(
        bytes_read=4 * (behind + job),
        bytes_written=4 * (behind * launches + job * jobs),
        flops=7 * job * jobs * job_rounds,
    )


# Parts of one round; one launch, and one job.
bench.awkward(
    {"launches": 1, "blocks": 1, "rounds": 8, "jobs": 1, "job_blocks": 1, "job_rounds": 1},
    {"launches": 5, "blocks": 7, "rounds": 24, "jobs": 3, "job_blocks": 2, "job_rounds": 5},
)
# A block of 10 us that runs beside a job of 29 us, and a launch and a wait of the host in both.
cuda.reach(of="time:alone", at_most=2, implementation="short_blocks")


class Jobs:
    """Jobs that the host launches and waits for, one after another, beside a background."""

    urgent: tuple[int, ...] = ()
    parts = 1

    def prepare(self, x, job, launches, rounds, jobs, job_rounds):
        self.background, self.results = x.new_empty(launches, len(x)), job.new_empty(jobs, len(job))
        self.speeds, self.job_speeds = torch.empty_like(x), torch.empty_like(job)
        self.calls = Recording(streams=3, urgent=self.urgent)
        self.record(
            lambda: self.launch(self.background, self.speeds, x, rounds, self.parts, BEHIND),
            lambda: self.launch(self.results, self.job_speeds, job, job_rounds, 1, BEFORE),
        )

    def record(self, background, jobs):
        """Record both in their order."""
        background()
        jobs()

    def launch(self, out, speeds, x, rounds, parts, stream):
        shape = {"grid": len(x) // THREADS, "block": THREADS, "shared_bytes": SHARED, "stream": stream}
        for number, places in enumerate(out):
            for part in range(parts):
                given = (places, speeds, x, factor(number), int(part == 0), rounds // parts, len(x))
                self.calls.launch(device_code.kernel("rounds"), *given, **shape)
            if stream == BEFORE:
                self.calls.finish(stream)

    def run(self):
        self.calls.play()

    def finish(self):
        torch.cuda.synchronize()

    def output(self):
        return {"background": self.background, "jobs": self.results}


@cuda.baseline(kind="reasonable")
class SamePriority(Jobs):
    """Two streams of one priority."""


@cuda.variant(
    adds="priority",
    why="blocks of the jobs go before those of the background that wait, and only wait for some that run",
    predict="1.5 to 4x: 29 us and 40 us of running blocks, against 29 us and 155 us for half a kernel",
)
class HighPriority(Jobs):
    urgent = (BEFORE,)


@cuda.variant(
    builds_on="high_priority",
    adds="short blocks",
    why="the background is cut into launches of an eighth, whose blocks end eight times as soon",
    predict="1.3 to 2.2x: 29 us and 5 to 10 us of running blocks, against 29 us and 40 us",
)
class ShortBlocks(HighPriority):
    parts = PARTS


@cuda.yardstick(why="the jobs alone: the background begins behind the last of them")
class Alone(Jobs):
    def record(self, background, jobs):
        jobs()
        background()
