"""Host and device: a number that the host reads in every step makes each of them wait for the other.

Workload   Training steps of a linear model by gradient descent: rows are normalised, the loss is the mean squared
           error, and a gradient whose norm is above `limit` is made shorter. The host must know all losses and norms
           in the end. On a GPU the host launches the kernels of each step. On a processor a second thread is the
           device: it takes calls from a queue; the host normalises the rows of each step, and queues the rest.
Baseline   The host reads loss and norm in every step, and decides how far to go. So the device has nothing to do until
           the host has launched or prepared the next step, and the host nothing until that is over.
Variants   `on_device`: the device itself decides, by a minimum instead of a branch; the host reads all numbers after
           the last step.  `one_late`: the host also reads in every step, but the numbers of the step before, and does
           not wait for the newest step.  `graph` (cuda): each step is one launch.
           The yardstick `unread` (cuda) is the floor: the steps of `on_device`, of which the host reads nothing.
Breaks     Steps that take far longer than what the host does between two of them. Decisions that change what is
           launched (an early end, a skipped layer) are no minimum; they need a graph with conditions, or come late.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.graphs import captured
from aiperf_core.kernels import host_source

bench = Benchmark(goal="throughput", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda"), bench.on("cpu", requires="compiler")
host_code = host_source("host_sync_removal.c", options=("-ffp-contract=fast",))


@bench.workload(
    state=("weights",),
    smoke={"steps": 5, "batch": 7, "width": 37},
    cpu={"steps": 16, "batch": 64, "width": 8192},
    cuda={"steps": 200, "batch": 64, "width": 2048},
)
def inputs(steps, batch, width, device, generator):
    def normal(*size):
        return torch.randn(*size, device=device, generator=generator)

    return {"x": normal(steps, batch, width), "y": normal(steps, batch), "weights": normal(width) / math.sqrt(width)}


@bench.reference(tolerance=fp32_reduction)
def reference(x, y, weights, batch, width):
    metrics, (rate, limit) = [], rate_and_limit(batch, width)
    for examples, wanted in zip(x, y, strict=True):
        z = torch.nn.functional.layer_norm(examples, (width,))
        error = z @ weights - wanted
        slope = z.t() @ error * (2 / batch)
        metrics.append(torch.stack((error.square().mean(), slope.norm())))
        weights = weights - rate * slope * limit / torch.clamp(metrics[-1][1], min=limit)
    return {"metrics": torch.stack(metrics), "weights": weights}


@bench.cost
def cost(steps, batch, width):
    return Cost(
        bytes_read=4 * (steps * batch * (width + 1) + width),
        bytes_written=4 * (width + 2 * steps),
        flops=4 * steps * batch * width,
        tokens=steps * batch,
    )


bench.awkward({"steps": 1, "batch": 1, "width": 61}, {"steps": 31, "batch": 3, "width": 129})
# The run whose numbers nobody reads.
cuda.reach(of="time:unread", at_most=1.1, implementation="one_late")


def rate_and_limit(batch, width):
    """A rate at which every step shrinks the error on its rows, and a norm that about half of the gradients exceed."""
    return batch / (4 * (batch + width)), 2.6 * math.sqrt(width / batch)


class Steps:
    """The steps of a GPU, as torch operations."""

    def prepare(self, x, y, weights, batch, width):
        self.metrics = torch.empty(len(x), 2, device=x.device)
        self.rate, self.limit = rate_and_limit(batch, width)
        self.parts = list(zip(x, y, self.metrics, strict=True))

    def gradient(self, x, y, weights, metrics):
        """Write loss and norm of a step to `metrics`, and return the gradient."""
        z = torch.nn.functional.layer_norm(x, x.shape[1:])
        error = torch.mv(z, weights).sub_(y)
        torch.mean(error.square(), 0, out=metrics[0])
        slope = torch.mv(z.t(), error.mul_(2 / len(error)))
        torch.linalg.vector_norm(slope, out=metrics[1])
        return slope

    def step(self, x, y, weights, metrics):
        """A step that needs nothing from the host."""
        slope = self.gradient(x, y, weights, metrics)
        weights.addcmul_(slope, self.limit / metrics[1].clamp(min=self.limit), value=-self.rate)

    def result(self, read, weights):
        """The judge compares what the host has read on the device of the weights."""
        return {"metrics": torch.tensor(read, device=weights.device), "weights": weights}


@cuda.baseline(kind="naive", name="read_each_step")
class ReadEachStep(Steps):
    def run(self, weights):
        read = []
        for x, y, metrics in self.parts:
            slope = self.gradient(x, y, weights, metrics)
            loss, norm = metrics[0].item(), metrics[1].item()
            weights.add_(slope, alpha=-self.rate * self.limit / max(norm, self.limit))
            read.append([loss, norm])
        return self.result(read, weights)


@cuda.variant(
    name="on_device",
    adds="decision on the device",
    why="how far to go is a minimum that the device takes; the host launches ahead and reads once",
)
class OnDevice(Steps):
    def run(self, weights):
        for x, y, metrics in self.parts:
            self.step(x, y, weights, metrics)
        return self.result(self.metrics.tolist(), weights)


@cuda.variant(
    name="one_late",
    builds_on="on_device",
    adds="asynchronous reads",
    why="numbers go to pinned memory beside the steps; the host looks at those of the step before, which have arrived",
)
class OneLate(Steps):
    def prepare(self, x, y, weights, batch, width):
        super().prepare(x, y, weights, batch, width)
        self.arrived = torch.empty(len(x), 2, pin_memory=True)
        self.events = [torch.cuda.Event() for _ in self.parts]

    def run(self, weights):
        read: list[list[float]] = []
        for number, (x, y, metrics) in enumerate(self.parts):
            self.step(x, y, weights, metrics)
            self.arrived[number].copy_(metrics, non_blocking=True)
            self.events[number].record()
            while len(read) < number and self.events[len(read)].query():
                read.append(self.arrived[len(read)].tolist())
        self.events[-1].synchronize()
        return self.result(read + self.arrived[len(read) :].tolist(), weights)


@cuda.variant(builds_on="on_device", adds="graph", why="a step is one launch, which the host makes in a fraction of it")
class Graph(Steps):
    def prepare(self, x, y, weights, batch, width):
        super().prepare(x, y, weights, batch, width)
        self.graphs = [captured(self.step, x, y, weights, metrics) for x, y, metrics in self.parts]

    def run(self, weights):
        for graph in self.graphs:
            graph.replay()
        return self.result(self.metrics.tolist(), weights)


@bench.yardstick(device="cuda", why="the floor: the same steps, of which the host reads nothing")
class Unread(Steps):
    def run(self, weights):
        for x, y, metrics in self.parts:
            self.step(x, y, weights, metrics)
        return {"metrics": self.metrics, "weights": weights}


class Queued:
    """The steps of a processor: a thread is the device, and this one the host.

    steps(device, weights, batch, width): takes all steps on a thread, and returns what the host has read of each.
    """

    steps: Any

    def prepare(self, x, y, weights, batch, width):
        self.metrics, self.slope, self.z = torch.empty(len(x), 2), torch.empty(width), torch.empty_like(x)
        self.rate, self.limit = rate_and_limit(batch, width)
        self.parts = list(zip(x, self.z, y, self.metrics, strict=True))
        names = ("normalise", "gradient", "update", "clipped_update")
        self.normalise, self.gradient, self.update, self.clipped_update = map(host_code.function, names)

    def run(self, weights, batch, width):
        with ThreadPoolExecutor(1) as device:
            read = self.steps(device, weights, batch, width)
        return {"metrics": torch.tensor(read), "weights": weights}


@cpu.baseline(kind="naive", name="read_each_step")
class ReadEachCall(Queued):
    def steps(self, device, weights, batch, width):
        read = []
        for x, z, y, metrics in self.parts:
            self.normalise(x, z, batch, width)
            device.submit(self.gradient, z, y, weights, self.slope, metrics, batch, width).result()
            loss, norm = metrics.tolist()
            device.submit(self.update, weights, self.slope, self.rate * self.limit / max(norm, self.limit), width)
            read.append([loss, norm])
        return read


class Ahead(Queued):
    def step(self, device, weights, z, y, metrics, batch, width):
        """Queue a step that needs nothing from the host."""
        device.submit(self.gradient, z, y, weights, self.slope, metrics, batch, width)
        return device.submit(self.clipped_update, weights, self.slope, metrics, self.rate, self.limit, width)


@cpu.variant(
    name="on_device",
    adds="decision on the device",
    why="how far to go is a minimum that the device takes; the host prepares ahead and reads once",
)
class QueuedAhead(Ahead):
    def steps(self, device, weights, batch, width):
        for x, z, y, metrics in self.parts:
            self.normalise(x, z, batch, width)
            last = self.step(device, weights, z, y, metrics, batch, width)
        last.result()
        return self.metrics.tolist()


@cpu.variant(
    name="one_late",
    builds_on="on_device",
    adds="asynchronous reads",
    why="the host reads the numbers of the step before, which is over when the next rows are ready",
)
class QueuedOneLate(Ahead):
    def steps(self, device, weights, batch, width):
        read: list[list[float]] = []
        queued = []
        for x, z, y, metrics in self.parts:
            self.normalise(x, z, batch, width)
            queued.append(self.step(device, weights, z, y, metrics, batch, width))
            for late in range(len(read), len(queued) - 1):
                queued[late].result()
                read.append(self.metrics[late].tolist())
        queued[-1].result()
        return [*read, self.metrics[-1].tolist()]
