"""Graphs: a chain of short kernels is as fast as it is launched; a graph launches it at once.

Question    How long does a chain of short dependent kernels take when the host launches each, and when it launches all?
Numbers     200 steps of six elementwise operations on 2^14 float32 values: 1,201 kernels of 64 blocks. The floor of a
            graph is 1,201 times an empty node, about 0.5 us; a kernel's read of the L2 and write come on top.
Prediction  A launch takes the host about 4 us and a node the GPU about 1.1 us: 3 to 5x. Fused, 200 steps of about 300
            dependent cycles remain: 35 us.
Limits      At 2^24 values (`--size long_kernels`) a kernel of up to 200 MB outlasts its launch, and a graph gains
            nothing; fusion still saves 60 bytes an element and step. A graph repeats the same calls on the same
            addresses. On a processor torch takes the sine of several values at once, C of one: from some hundred
            values on torch is ahead.
"""

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.graphs import graphed
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="warm", subject="host")
cuda, cpu = bench.on("cuda", requires="compiler"), bench.on("cpu", requires="compiler")
device_code = cuda_source("cuda_graphs.cu")
host_code = host_source("cuda_graphs.c")

BLOCK = 256
STAGES = ("begin", "push", "wave", "grow", "squash", "pull", "add")

rounded_in_every_step = Tolerance(1e-5, reason="hundreds of steps of six float32 operations, in one sum")


@bench.workload(
    floor={"n": 1},
    smoke={"n": 61, "steps": 7},
    cpu={"n": 64, "steps": 100},
    wide={"n": 1 << 13, "steps": 100},
    cuda={"n": 1 << 14, "steps": 200},
    long_kernels={"n": 1 << 24, "steps": 200},
)
def inputs(n, device, generator):
    return {name: torch.randn(n, device=device, generator=generator) for name in ("start", "drive")}


@bench.reference(tolerance=rounded_in_every_step)
def reference(start, drive, steps):
    x, total = start.clone(), torch.zeros_like(start)
    for step in range(steps):
        # A step shrinks what two values differ by, or rounding would decide where single elements go.
        x = torch.tanh(0.75 * torch.sin(x + weight(step) * drive)) - 0.5 * drive
        total += x
    return total


@bench.cost
def cost(n, steps):
    # Sine and hyperbolic tangent count as one operation each, as little as they can.
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=8 * n * steps, precision="fp32")


def chain_cost(n, steps):
    """A chain of kernels needs its launches too, one after another."""
    return evolve(cost(n, steps), launches=len(recorded_calls(steps)))


# One element, primes, and what leaves a block partly full.
bench.awkward(*({"n": n, "steps": steps} for n, steps in ((1, 1), (255, 3), (257, 6), (4099, 11))))
# What lets a kernel start early, and what it waits by.
bench.sass("push", has=("PREEXIT", "ACQBULK"), arch="sm_90")
# An empty node for each kernel, and about as long again for its read of the L2 and the write that the next one reads.
cuda.reach(of="GRAPH", at_most=2, launches=1201, implementation="programmatic_graph")
# Of 60 bytes an element and step the fused chain moves none, and executes some 100 instructions: a third of the time.
cuda.reach(of="time:graph", at_most=1 / 3, implementation="fused", size="long_kernels")


def weight(step):
    """How much a step is driven: 1, 1/2, 1/4, 1/8, 1/16 and again, all exact."""
    return 0.5 ** (step % 5)


def recorded_calls(steps):
    """The chain as a list: which stage, and the number that it is given."""
    return [("begin", 0.0), *((stage, weight(step)) for step in range(steps) for stage in STAGES[1:])]


def weights_of_steps(start, steps):
    return torch.tensor([weight(step) for step in range(steps)], device=start.device)


class TorchChain:
    """The chain as torch operations."""

    def prepare(self, start):
        self.x, self.total = torch.empty_like(start), torch.empty_like(start)

    def run(self, start, drive, steps):
        x, total = self.x.copy_(start), self.total.zero_()
        for step in range(steps):
            x.add_(drive, alpha=weight(step)).sin_().mul_(0.75).tanh_().sub_(drive, alpha=0.5)
            total.add_(x)
        return total


class LaunchLoop:
    """The chain as launches, which C makes without Python in between."""

    early = False

    def prepare(self, start, drive, n, steps):
        self.x, self.total = torch.empty_like(start), torch.empty_like(start)
        self.recording, shape = Recording(), {"grid": -(-n // BLOCK), "block": BLOCK, "early": self.early}
        for stage, number in recorded_calls(steps):
            kernel = device_code.kernel(stage)
            self.recording.launch(kernel, self.x, self.total, start, drive, number, n, **shape)

    def run(self):
        self.recording.play()
        return self.total


class EarlyLoop(LaunchLoop):
    early = True


cuda.baseline(LaunchLoop, kind="reasonable")
cuda.variant(
    graphed("launch_loop"),
    name="graph",
    cost=chain_cost,
    adds="graph",
    why="the driver has the whole chain, and sends it without asking the host for each kernel",
    predict="3 to 5x: 4 us of the host for a launch, 1.1 us of the GPU for a node",
)
cuda.variant(
    graphed(EarlyLoop),
    name="programmatic_graph",
    requires="sm_90",
    builds_on="graph",
    adds="programmatic edges",
    why="the blocks of a kernel are placed while the one before it still runs, and only wait for its values",
)
cuda.variant(
    launch(device_code, out="start", make={"weights": weights_of_steps}, grid=blocks(n=BLOCK), block=BLOCK)(
        "whole_chain"
    ),
    name="fused",
    adds="fusion",
    why="one launch, and between its operations the values stay in registers",
    predict="at least 20x: 200 steps of 300 dependent cycles against 1,201 launches of 4 us",
)
cuda.yardstick(TorchChain, name="torch_eager", why="the torch operations, launched one by one from Python")
cuda.yardstick(graphed(TorchChain), name="torch_graph", cost=chain_cost, why="the torch operations, captured")

list_of_calls = {
    "weights": lambda steps: torch.tensor([number for _, number in recorded_calls(steps)]),
    "stages": lambda steps: torch.tensor([STAGES.index(stage) for stage, _ in recorded_calls(steps)]),
    "count": lambda stages: len(stages),
    "x": lambda start: torch.empty_like(start),
}
in_c = loop(host_code, out="start")
cpu.baseline(TorchChain, kind="reasonable", name="eager")
cpu.variant(
    in_c("replay", make=list_of_calls),
    name="recorded",
    adds="recorded calls",
    why="nothing is looked up or checked between the calls: all that was done when recording",
)
cpu.variant(
    in_c("whole_chain", make={"weights": weights_of_steps}),
    name="fused_loop",
    adds="fusion",
    why="one call, and between its operations the values stay in the nearest cache or in registers",
)
