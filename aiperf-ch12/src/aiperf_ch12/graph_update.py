"""New pointers: an executable graph is told of them, not captured again.

Question    A graph of 64 kernels is launched for each step, and three of them need a new pointer each time, as for the
            cache of a decoder. What does it cost to tell them?
Numbers     200 steps of 64 dependent kernels on 2^12 float32 values: 12,800 kernels. As nodes of a graph they take
            some 1.1 us each, 70 us a step; what the host does in less than that time is hidden.
Prediction  To capture 64 launches takes 64 to 130 us of the host, and to instantiate them 2 to 4 us a node more: 3 to
            6 times the nodes' time. An update of the whole graph saves the instantiation; a capture then hides behind
            the nodes, as three calls for three nodes do. A block of parameters in memory, written by a launch before
            the graph, has the graph wait for the end of a launch; by a node of the graph, for a node.
Limits      With 8 nodes (`--size short_graph`) the nodes take 9 us, and three calls beside a launch count. A block in
            memory holds what kernels read, not their grid: a step of another shape needs another graph, or an update.
"""

from typing import Any

import torch
from attrs import evolve

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.graphs import Graph
from aiperf_core.kernels import cuda_source
from aiperf_core.recorded import Recording

bench = Benchmark(goal="latency", clock="wall", cache="warm", subject="host")
cuda = bench.on("cuda", requires="compiler")
device_code = cuda_source("graph_update.cu")

BLOCK, OWN = 256, 1  # threads of a block; a stream that can be captured


@bench.workload(
    floor={"n": 1},
    smoke={"n": 61, "nodes": 8, "steps": 5},
    cuda={"n": 1 << 12, "nodes": 64, "steps": 200},
    short_graph={"n": 1 << 12, "nodes": 8, "steps": 200},
)
def inputs(n, steps, device, generator):
    return {"drive": torch.randn(steps, n, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(drive, nodes):
    state, log = torch.zeros_like(drive[0]), []
    for step, row in enumerate(drive):
        state = 0.5 * state + row
        for _ in range(nodes - 3):
            state = 0.75 * state + 0.25 * state.roll(-1)
        log.append(state)
        state = state + 0.25 * log[step // 2]
    return torch.stack(log)


@bench.cost
def cost(n, nodes, steps):
    return Cost(bytes_read=4 * n * steps, bytes_written=4 * n * steps, flops=3 * n * nodes * steps)


def cost_of_kernels(n, nodes, steps):
    """The steps as kernels, one after another."""
    return evolve(cost(n, nodes, steps), launches=nodes * steps)


# The fewest nodes, one element, and what leaves a block partly full; an odd and an even number of kernels between.
shapes = ((1, 3, 1), (255, 4, 2), (257, 7, 3), (4099, 64, 9))
bench.awkward(*({"n": n, "nodes": nodes, "steps": steps} for n, nodes, steps in shapes))
# A node that counts beside 64, and what three nodes wait for the pointers that they read, about a node's time each.
cuda.reach(of="time:set_nodes", at_most=68 / 64, implementation="counted")


class Steps:
    """Steps of `nodes` kernels on a stream that can be captured; `step` records how each is launched."""

    step: Any

    def prepare(self, drive, nodes):
        self.drive, self.log = drive, torch.empty_like(drive)
        self.here, self.there = torch.zeros_like(drive[0]), torch.zeros_like(drive[0])
        self.block = torch.zeros(4, dtype=torch.int64, device=drive.device)
        self.shape = {"grid": -(-len(drive[0]) // BLOCK), "block": BLOCK}
        self.nodes, self.calls = nodes, Recording(streams=1 + OWN)
        self.make_ready()
        for step in range(len(drive)):
            self.step(step)

    def make_ready(self):
        """Called before the first step is recorded."""

    def run(self):
        self.here.zero_()
        self.block.zero_()
        self.calls.play()
        return self.log

    def rows(self, step):
        """The rows that a step takes, puts and recalls."""
        return self.drive[step], self.log[step], self.log[step // 2]

    def kernels(self, drive, out, earlier, suffix=""):
        """The kernels of a step and their arguments. State comes and goes in `here`."""
        n = len(self.here)
        yield "take" + suffix, (self.there, self.here, drive, n)
        source, target = self.there, self.here
        for _ in range(self.nodes - 3):
            yield "mix", (target, source, n)
            source, target = target, source
        yield "put" + suffix, (source, out, n)
        yield "recall" + suffix, (self.here, source, earlier, n)

    def launch(self, calls, kernels, stream=0):
        for kernel, args in kernels:
            calls.launch(device_code.kernel(kernel), *args, stream=stream, **self.shape)

    def captured(self, calls, step):
        """Capture the kernels of a step."""
        calls.capture(stream=OWN)
        self.launch(calls, self.kernels(*self.rows(step)), stream=OWN)
        return calls.end_capture(stream=OWN)


@cuda.baseline(kind="naive", cost=cost_of_kernels)
class Recaptured(Steps):
    """A graph for each step."""

    def step(self, step):
        graph = self.captured(self.calls, step)
        executable = self.calls.instantiate(graph)
        self.calls.graph(executable, stream=OWN)
        self.calls.destroy(graph)
        self.calls.destroy(executable)


@cuda.variant(
    cost=cost_of_kernels,
    adds="graph update",
    why="an executable graph gets the launches of a new capture, and keeps what it has set up for the GPU",
    predict="1.5 to 4x: 130 to 260 us for 64 nodes are not instantiated, beside 64 to 130 us to capture them",
)
class ExecUpdate(Steps):
    def make_ready(self):
        first = Recording(streams=1 + OWN)
        self.executable = first.instantiate(self.captured(first, 0))
        first.play()

    def step(self, step):
        graph = self.captured(self.calls, step)
        self.calls.update(self.executable, graph)
        self.calls.graph(self.executable, stream=OWN)
        self.calls.destroy(graph)


class Built(Steps):
    """One graph, built of the kernels of the first step."""

    def built(self, kernels):
        launches, self.graph = Recording(), Graph()
        self.launch(launches, kernels)
        self.made = self.graph.chain(launches)
        self.executable = int(self.graph.ready())


@cuda.variant(
    cost=cost_of_kernels,
    builds_on="exec_update",
    adds="node parameters",
    why="the three nodes with new pointers are told, and nothing is captured",
    predict="1.0 to 1.1x: three calls of 1 us hide behind 70 us of nodes, as most of 64 captured launches do",
)
class SetNodes(Built):
    def make_ready(self):
        self.built(self.kernels(*self.rows(0)))

    def step(self, step):
        for node, (kernel, args) in zip(self.made, self.kernels(*self.rows(step)), strict=True):
            if kernel != "mix":
                self.calls.set_node(self.executable, int(node), device_code.kernel(kernel), *args, **self.shape)
        self.calls.graph(self.executable, stream=OWN, keeps=self.graph)


@cuda.variant(
    cost=cost_of_kernels,
    builds_on="set_nodes",
    adds="parameter block",
    why="kernels find their rows in a block of memory, which one launch before the graph writes",
    teaches="a graph starts when the launch before it has ended, ten nodes later; calls that hide cost nothing",
)
class ParameterBlock(Built):
    def make_ready(self):
        self.built(self.kernels(self.block, self.block, self.block, "_of"))

    def step(self, step):
        self.calls.launch(device_code.kernel("point"), self.block, *self.rows(step), grid=1, block=1, stream=OWN)
        self.calls.graph(self.executable, stream=OWN, keeps=self.graph)


@cuda.variant(
    cost=cost_of_kernels,
    builds_on="parameter_block",
    adds="count on the device",
    why="rows follow from the step's number, which a node of the graph counts: the host only replays",
    predict="1.05 to 1.3x: one more node in place of a launch that the graph waits for",
)
class Counted(Built):
    def make_ready(self):
        self.built(self.kernels(self.block, self.block, self.block, "_of"))

    def built(self, kernels):
        count = "count", (self.block, self.drive, self.log, len(self.here))
        super().built([count, *kernels])

    def step(self, step):
        self.calls.graph(self.executable, stream=OWN, keeps=self.graph)
