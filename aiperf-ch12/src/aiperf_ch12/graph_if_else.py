"""A branch in a graph: a choice that the device makes does not ask the host.

Question    A number on the device says whether a step takes long or short. What does it cost to ask the host which?
Numbers     2000 steps on 2^12 float32 values, half with 4096 rounds of four dependent instructions, half with 256, in
            random order: some 37 and 3 us, 40 ms in all. A decision is a kernel of one thread.
Prediction  A read by the host costs a copy, a wait and a launch, 10 to 25 us a step: 1.4 to 2.2 times the steps' time.
            Kernels that return at once where a way is not taken cost a node of 1 to 2 us each. A conditional node
            starts a graph of its own, as a launch of a graph does: more than a node that returns.
Limits      Ways of many kernels: each of them is a node that returns, but for a conditional node. Ways of a millisecond
            hide what the host costs. Ways with the same grid fit one kernel with an `if`, which is the floor here
            (`one_kernel`); it needs the registers and the shared memory of both.
"""

from typing import Any

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, Tolerance
from aiperf_core.graphs import Graph, require_branches
from aiperf_core.kernels import cuda_source
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="warm", subject="host")
cuda = bench.on("cuda", requires="compiler")
device_code, branch_code = cuda_source("graph_if_else.cu"), cuda_source("graph_if_else_branch.cu")

BLOCK = 256
ROUND, KEPT = 2.0**-7, 31 / 32

rounded_in_every_round = Tolerance(
    1e-4, reason="up to 4096 float32 rounds, whose errors shift the phase of an oscillation"
)


@bench.workload(
    floor={"n": 1},
    smoke={"n": 61, "steps": 6, "few": 2, "many": 9},
    cuda={"n": 1 << 12, "steps": 2000, "few": 256, "many": 4096},
    long_ways={"n": 1 << 12, "steps": 100, "few": 1 << 14, "many": 1 << 16},
)
def inputs(n, steps, device, generator):
    # Half of the steps are long, in an order that only the device has.
    order = torch.randperm(steps, device=device, generator=generator)
    return {"x": torch.rand(n, device=device, generator=generator) - 0.5, "ways": (order % 2).to(torch.int32)}


@bench.reference(tolerance=rounded_in_every_round)
def reference(x, ways, few, many):
    steps = len(ways)
    places = x * (1 + torch.arange(steps, dtype=x.dtype, device=x.device) / steps)[:, None]
    speeds, is_long = torch.zeros_like(places), ways.bool()
    for chosen, rounds in ((~is_long, few), (is_long, many)):
        place, speed = places[chosen], speeds[chosen]
        for _ in range(int(rounds)):
            speed -= ROUND * (place * place * place + place)
            place += ROUND * speed
        places[chosen] = place
    total = torch.zeros_like(x)
    for place in places:
        total = KEPT * total + place
    return total


@bench.cost
def cost(n, steps, few, many):
    rounds = steps // 2 * many + (steps - steps // 2) * few
    return Cost(bytes_read=4 * (n + steps), bytes_written=4 * n, flops=7 * n * rounds, precision="fp32")


def cost_of_steps(n, steps, few, many):
    """A decision and the way that it takes, one after another."""
    return evolve(cost(n, steps, few, many), launches=2 * steps)


# One element and one step; no rounds; an odd number of steps; a block that is partly full.
bench.awkward(
    {"n": 1, "steps": 1, "few": 1, "many": 2},
    {"n": 255, "steps": 3, "few": 0, "many": 1},
    {"n": 4099, "steps": 17, "few": 3, "many": 40},
)
# Some 20 us a step on average, and for the choice 3 us: two nodes, one that decides and one that returns or starts.
cuda.reach(
    of="time:one_kernel",
    at_most=23 / 20,
    implementation="conditional",
    cause="the start of the chosen way, most of which a kernel that returns in its place does not need",
    shown_by="variant:predicated",
)


class Steps:
    """Steps whose number and way are in memory of the device."""

    make_ready: Any

    def prepare(self, x, ways, few, many):
        self.x, self.ways, self.total = x, ways, torch.empty_like(x)
        self.state = torch.empty(2, dtype=torch.int32, device=x.device)
        self.shape: dict[str, Any] = {"grid": -(-len(x) // BLOCK), "block": BLOCK}
        self.one: dict[str, Any] = {"grid": 1, "block": 1}
        self.rounds, self.steps = (int(few), int(many)), len(ways)
        self.calls = Recording()
        self.make_ready()

    def run(self):
        self.total.zero_()
        self.state.fill_(-1)
        self.calls.play()
        return self.total

    def decide(self, calls):
        calls.launch(device_code.kernel("decide"), self.ways, self.state, **self.one)

    def way(self, way):
        """A recording of a way as a kernel that is launched when it is chosen."""
        calls, n = Recording(), len(self.x)
        given = (self.x, self.total, self.state, self.steps, self.rounds[way], n)
        calls.launch(device_code.kernel("chosen"), *given, **self.shape)
        return calls


@cuda.baseline(kind="reasonable", cost=cost_of_steps)
class HostChoice(Steps):
    """The host reads the way of each step, and launches the graph of that."""

    def make_ready(self):
        self.read, self.graphs = torch.empty(2, dtype=torch.int32, pin_memory=True), [Graph(), Graph()]
        for way, graph in enumerate(self.graphs):
            graph.chain(self.way(way))
        executables = [int(graph.ready()) for graph in self.graphs]
        for _ in range(self.steps):
            self.decide(self.calls)
            self.calls.copy(self.read, self.state)
            self.calls.finish()
            self.calls.choose(self.read[1:], executables, keeps=self.graphs)


class Replayed(Steps):
    """A graph of a step, which is launched for each."""

    fill: Any

    def make_ready(self):
        self.graph = Graph()
        self.fill(self.graph)
        for _ in range(self.steps):
            self.calls.graph(int(self.graph.ready()), keeps=self.graph)


@cuda.variant(
    cost=cost_of_steps,
    adds="predicated kernels",
    why="both ways are launched, and the kernel of the other one returns at once: nobody waits for the host",
    predict="1.3 to 2.2x: 10 to 25 us for a read and 20 us of rounds against 20 us and a node of 1 to 2 us",
)
class Predicated(Replayed):
    def fill(self, graph):
        calls = Recording()
        self.decide(calls)
        for way, rounds in enumerate(self.rounds):
            given = (self.x, self.total, self.state, way, self.steps, rounds, len(self.x))
            calls.launch(device_code.kernel("predicated"), *given, **self.shape)
        graph.chain(calls)


@cuda.variant(
    cost=cost_of_steps,
    builds_on="predicated",
    adds="conditional node",
    why="the kernel that decides tells the graph, which launches the way that is taken and not the other",
    teaches="a condition costs several nodes: it pays where the way that is not taken has more kernels than that",
)
class Conditional(Replayed):
    def fill(self, graph):
        require_branches()
        calls, condition = Recording(), graph.condition()
        calls.launch(branch_code.kernel("decide_and_tell"), self.ways, self.state, condition, **self.one)
        (decided,) = graph.chain(calls)
        long, short = graph.branch(condition, decided)
        short.chain(self.way(0))
        long.chain(self.way(1))


@cuda.yardstick(why="the branch as an `if` of one kernel, whose launches know their step: no decision waits")
class OneKernel(Steps):
    def make_ready(self):
        launches, self.graph = Recording(), Graph()
        for step in range(self.steps):
            given = (self.x, self.total, self.ways, step, self.steps, *self.rounds, len(self.x))
            launches.launch(device_code.kernel("either"), *given, **self.shape)
        self.graph.chain(launches)
        self.calls.graph(int(self.graph.ready()), keeps=self.graph)
