"""Graphs: a chain of short kernels is as fast as it is launched; a graph launches it at once.

Workload   Six element-wise operations on float32 values, over and over: x is pushed, goes through sin, grows, is
           squashed by tanh and pulled back, and is added to a total, which is the answer. Every step counts in it.
Baseline   cuda: a loop in C that launches one kernel an operation, without Python between them.
           cpu: one torch operation after the other, in place.
Variants   `graph` (cuda): the same kernels, as one graph.  `programmatic_graph` (cuda): a graph whose edges let a
           kernel's blocks be placed before the kernel before it is over; each waits itself for what it
           reads.  `torch_graph` (cuda): the torch operations, captured.  `fused` (cuda): one kernel, with the values in
           registers.
           `recorded` (cpu): the list of calls is made ahead, and one call replays it.  `fused_loop` (cpu): one loop in
           C.
Breaks     Long kernels: a launch is then over before the kernel before it is, and the graph saves nothing. Fusion still
           saves what goes to memory in between. A graph repeats the same calls on the same addresses; what changes
           costs an update. On a processor torch takes the sine of several values at once, C of one: from some hundred
           values on torch is ahead.
"""

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, Tolerance, graphs
from aiperf_core.errors import KernelError
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="latency", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda"), bench.on("cpu")
device_code = cuda_source("cuda_graphs.cu")
launching = host_source("launch.c")
host_code = host_source("cuda_graphs.c")

BLOCK = 256
STAGES = ("begin", "push", "wave", "grow", "squash", "pull", "add")

rounded_in_every_step = Tolerance(
    1e-5, reason="hundreds of steps, each of six float32 operations on the values of the one before, in one sum"
)


@bench.workload(
    smoke={"n": 61, "steps": 7},
    cpu={"n": 64, "steps": 100},
    # More values than torch needs to be ahead of the loop in C; and kernels that outlast their launches.
    wide={"n": 1 << 13, "steps": 100},
    cuda={"n": 1 << 14, "steps": 200},
    long_kernels={"n": 1 << 24, "steps": 200},
)
def inputs(n, device, generator):
    def normal():
        return torch.randn(n, device=device, generator=generator)

    return {"start": normal(), "drive": normal()}


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
cuda.reach(of="GRAPH", at_most=1.15, launches=1201, implementation="graph")
cuda.reach(of="speedup", at_least=1.6, implementation="graph")


def weight(step):
    """How much a step is driven: 1, 1/2, 1/4, 1/8, 1/16 and again, all exact."""
    return 0.5 ** (step % 5)


def recorded_calls(steps):
    """The chain as a list: which stage, and the number that it is given."""
    return [("begin", 0.0), *((stage, weight(step)) for step in range(steps) for stage in STAGES[1:])]


class TorchChain:
    """The chain as torch operations."""

    def prepare(self, start, steps):
        self.x, self.total = torch.empty_like(start), torch.empty_like(start)
        self.weights = [weight(step) for step in range(steps)]

    def run(self, start, drive):
        x, total = self.x.copy_(start), self.total.zero_()
        for one in self.weights:
            x.add_(drive, alpha=one).sin_().mul_(0.75).tanh_().sub_(drive, alpha=0.5)
            total.add_(x)
        return total


class Chain:
    """The chain as kernels with their parameters in memory."""

    def prepare(self, start, drive, steps):
        self.x, self.total = torch.empty_like(start), torch.empty_like(start)
        kernels, count = graphs.Kernels(device_code), start.numel()
        given = (self.x, self.total, start, drive)
        grid = -(-count // BLOCK)
        self.calls = [
            kernels.prepare(graphs.Call(stage, (*given, float(number), count), grid))
            for stage, number in recorded_calls(steps)
        ]
        self.make_ready()

    def make_ready(self):
        """Called once, when the calls are there."""


@cuda.baseline(kind="reasonable", requires="compiler")
class LaunchLoop(Chain):
    def make_ready(self):
        rows = [(int(call.function), call.address, call.grid) for call in self.calls]
        self.rows, self.launch = torch.tensor(rows, dtype=torch.int64), launching.function("launch_all")
        self.cu_launch_kernel = graphs.launcher()

    def run(self):
        stream = torch.cuda.current_stream().cuda_stream
        status = self.launch(self.cu_launch_kernel, self.rows, len(self.rows), BLOCK, stream)
        if status:
            raise KernelError(f"a launch failed with CUDA's error {status}")
        return self.total


@cpu.baseline(kind="reasonable")
class Eager(TorchChain):
    pass


@cuda.variant(
    cost=chain_cost,
    adds="graph",
    why="the driver has the whole chain, and sends it without asking the host for each kernel",
)
class Graph(Chain):
    def make_ready(self):
        self.graph = graphs.Graph()
        self.graph.chain(self.calls, BLOCK)
        self.graph.ready()

    def run(self):
        self.graph.launch()
        return self.total


@cuda.variant(
    requires="sm_90",
    builds_on="graph",
    adds="programmatic edges",
    why="a kernel is placed on the chip while the one before it still runs, and only waits for its values",
)
class ProgrammaticGraph(Graph):
    def make_ready(self):
        self.graph = graphs.Graph()
        self.graph.chain(self.calls, BLOCK, early=True)
        self.graph.ready()


cuda.variant(
    graphs.graphed(TorchChain),
    name="torch_graph",
    cost=chain_cost,
    adds="captured operations",
    why="what torch launches can be captured too, and Python is gone from between its operations",
)


@cuda.variant(adds="fusion", why="one launch, and between its operations the values stay in registers")
class Fused:
    def prepare(self, start, steps):
        self.total, self.kernel = torch.empty_like(start), device_code.kernel("whole_chain")
        self.weights = torch.tensor([weight(step) for step in range(steps)], device=start.device)

    def run(self, start, drive, steps):
        count = start.numel()
        self.kernel(self.total, start, drive, self.weights, steps, count, grid=-(-count // BLOCK), block=BLOCK)
        return self.total


@cpu.variant(
    requires="compiler",
    adds="recorded calls",
    why="nothing is looked up or checked between the calls: all that was done when recording",
)
class Recorded:
    def prepare(self, start, steps):
        self.x, self.total = torch.empty_like(start), torch.empty_like(start)
        stages, numbers = zip(*recorded_calls(steps), strict=True)
        self.stages = torch.tensor([STAGES.index(stage) for stage in stages])
        self.numbers, self.replay = torch.tensor(numbers), host_code.function("replay")

    def run(self, start, drive):
        self.replay(self.stages, self.numbers, len(self.stages), self.x, self.total, start, drive, start.numel())
        return self.total


@cpu.variant(
    requires="compiler",
    adds="fusion",
    why="one call, and between its operations the values stay in the nearest cache or in registers",
)
class FusedLoop:
    def prepare(self, start, steps):
        self.total, self.loop = torch.empty_like(start), host_code.function("whole_chain")
        self.weights = torch.tensor([weight(step) for step in range(steps)])

    def run(self, start, drive, steps):
        self.loop(self.total, start, drive, self.weights, steps, start.numel())
        return self.total


@cuda.yardstick(why="the torch operations, launched one by one from Python")
class TorchEager(TorchChain):
    pass
