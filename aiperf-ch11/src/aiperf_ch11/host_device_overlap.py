"""Host and device: a number that the host reads in each step makes each of the two wait for the other.

Question    What does it cost to read a number of each step, where the host prepares the next step meanwhile?
Numbers     50 steps. The host normalises 1024 rows of 1024 bytes in C, H; the device copies them, takes them through
            four products and adds the result to a total, D. A result whose norm is above a limit is scaled down to it.
            H and D are between 1 and 2 ms each; the floor is 50 times the longer.
Prediction  Reading takes H + D a step, and deciding on the device the longer of both: 1.6 to 1.95x. A number that is
            read one step late costs nothing more. Ten launches of 4 us hide behind D, so a graph gains nothing.
Limits      A read costs the shorter of H and D. With `--size short_steps` eight launches of 4 us take longer than
            either: then reads cost little, and a graph gains. Decisions that change what is launched (an early end, a
            skipped layer) need conditional graphs, or come a step late.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.graphs import Graph
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.recorded import Recording

bench = Benchmark(goal="throughput", clock="wall", cache="warm")
cuda, cpu = bench.on("cuda", requires="compiler"), bench.on("cpu", requires="compiler")
device_code = cuda_source("host_device_overlap.cu")
host_code = host_source("host_device_overlap.c", options=("-ffp-contract=fast",))

PLACES, TILE = 2, 32
FILLED = {"grid": 264, "block": 512}


@bench.workload(
    smoke={"steps": 5, "rows": 7, "width": 37, "layers": 3},
    cpu={"steps": 16, "rows": 1 << 17, "width": 8, "layers": 1},
    cuda={"steps": 50, "rows": 1024, "width": 1024, "layers": 4},
    short_steps={"steps": 500, "rows": 32, "width": 128, "layers": 4},
)
def inputs(layers, width, device, generator):
    # Half of the values are lost to relu: this factor keeps the size of the rest.
    normal = torch.randn(layers, width, width, device=device, generator=generator)
    return {"weights": normal * math.sqrt(2 / width)}


@bench.static
def data(steps, rows, width, device, generator):
    return {"records": torch.randint(256, (steps, rows, width), dtype=torch.uint8, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(records, weights, rows, width):
    norms, total, limit = [], weights.new_zeros(rows, width), limit_of(rows, width)
    for step, rows_of_bytes in enumerate(records):
        result = torch.nn.functional.layer_norm(rows_of_bytes.to(weights), (width,)) * gain(step)
        for weight in weights:
            result = torch.relu(result @ weight)
        norms.append(result.norm())
        total += result * limit / torch.clamp(norms[-1], min=limit)
    return {"norms": torch.stack(norms), "total": total}


@bench.cost
def cost(steps, rows, width, layers):
    return Cost(
        bytes_read=4 * layers * width * width + steps * rows * width,
        bytes_written=4 * (rows * width + steps),
        flops=2 * steps * layers * rows * width * width,
        to_device_bytes=steps * rows * width,
        tokens=steps * rows,
    )


bench.awkward({"steps": 1, "rows": 1, "width": 61, "layers": 1}, {"steps": 31, "rows": 3, "width": 129, "layers": 2})
# The longer of both parts, which do not wait for each other there, and 8 % for the first step's host and the last read.
cuda.reach(of="time:independent", at_most=1.08, implementation="one_late")


def gain(step):
    """The size of a step's rows, so that about every second result is scaled down."""
    return 0.5 + step % 2


def limit_of(rows, width):
    return math.sqrt(rows * width)


class Steps:
    """Steps of a GPU. A variant records in `step(number)` when the host collates, waits and decides."""

    step: Any

    def prepare(self, records, weights, steps, rows, width):
        self.records, self.weights, self.limit = records.cpu(), weights, limit_of(rows, width)
        self.x, self.total, self.spare, self.result = (weights.new_empty(rows, width) for _ in range(4))
        self.state, self.norms = weights.new_empty(3), weights.new_empty(steps)
        self.batches, self.read = (torch.empty(shape, pin_memory=True) for shape in ((PLACES, rows, width), steps))
        self.gains = torch.tensor([gain(step) for step in range(steps)], dtype=torch.float64)
        self.calls, self.free = Recording(), {}
        self.make_ready()
        for number in range(steps):
            self.step(number)
        self.end()
        self.calls.finish()

    def make_ready(self):
        """Called before the first step is recorded."""

    def end(self):
        """Called behind the last one."""

    def run(self):
        self.total.zero_()
        self.state.zero_()
        self.calls.play()
        return {"norms": self.read.to(self.total.device), "total": self.total}

    def collate(self, number, batch):
        given = (self.records[number], batch, self.gains[number], *batch.shape)
        self.calls.call(host_code.function("collate_recorded"), *given)

    def host(self, number):
        """Collate a batch when its place is free, and copy it."""
        batch = self.batches[number % PLACES]
        if number >= PLACES:
            self.calls.finish(self.free[number - PLACES])
        self.collate(number, batch)
        self.calls.copy(self.x, batch)
        self.free[number] = self.calls.record()

    def layers(self, calls):
        """Launch the layers, and the sum of the squares of their result."""
        width, source, left = self.x.shape[1], self.x, len(self.weights)
        tiles = {"grid": tuple(-(-size // TILE) for size in (width, len(source))), "block": (TILE, TILE)}
        for weight in self.weights:
            target = self.result if left % 2 else self.spare
            calls.launch(device_code.kernel("product"), target, source, weight, len(source), width, **tiles)
            source, left = target, left - 1
        calls.launch(device_code.kernel("measure"), self.result, self.state, self.x.numel(), **FILLED)

    def add(self, calls):
        calls.launch(device_code.kernel("add"), self.total, self.result, self.state, self.x.numel(), **FILLED)


@cuda.baseline(kind="naive")
class ReadEach(Steps):
    """The host reads the norm of each step and decides about the factor, for which it waits."""

    def make_ready(self):
        self.sums, self.decided = (torch.empty(2, pin_memory=True) for _ in range(2))
        self.limits = torch.tensor([self.limit], dtype=torch.float64)

    def step(self, number):
        self.host(number)
        self.layers(self.calls)
        self.calls.copy(self.sums, self.state[:2])
        self.calls.finish()
        decide = host_code.function("decide_recorded")
        self.calls.call(decide, self.sums, self.read[number], self.decided, self.limits)
        self.calls.copy(self.state[:2], self.decided)
        self.add(self.calls)


@cuda.variant(
    adds="decision on the device",
    why="the factor is a minimum that the device takes, so the host prepares the next step while this one runs",
    predict="1.6 to 1.95x: H + D against the longer of both",
)
class OnDevice(Steps):
    def step(self, number):
        self.host(number)
        self.on_device(self.calls)

    def end(self):
        self.calls.copy(self.read, self.norms)

    def on_device(self, calls):
        self.layers(calls)
        calls.launch(device_code.kernel("decide"), self.state, self.norms, self.limit, grid=1, block=1)
        self.add(calls)


@cuda.variant(
    builds_on="on_device",
    adds="late reads",
    why="the host reads the norm of each step after it has queued the next one",
    teaches="a number that is read one step late is free: it is there before the host asks for it",
)
class OneLate(OnDevice):
    def make_ready(self):
        self.there = []

    def step(self, number):
        super().step(number)
        self.calls.copy(self.read[number], self.norms[number])
        self.there.append(self.calls.record())
        for event in self.there[:-1][-1:]:
            self.calls.finish(event)

    def end(self):
        """All norms are read."""


@cuda.variant(
    builds_on="on_device",
    adds="graph",
    why="a step is one launch, which takes less of the host's time",
    teaches="launches that hide behind the device cost nothing; a graph pays where the device waits for them",
)
class StepGraph(OnDevice):
    def make_ready(self):
        launches, self.graph = Recording(), Graph()
        super().on_device(launches)
        self.graph.chain(launches)

    def on_device(self, calls):
        calls.graph(int(self.graph.ready()), keeps=self.graph)


@cuda.yardstick(why="the device alone: the batches are there")
class DeviceAlone(OnDevice):
    def make_ready(self):
        self.collated = torch.empty(self.records.shape, pin_memory=True)
        for number, batch in enumerate(self.collated):
            host_code.call("collate", self.records[number], batch, gain(number), *batch.shape)

    def host(self, number):
        self.calls.copy(self.x, self.collated[number])


@cuda.yardstick(why="the longer of both: the host collates batches that nobody uses, beside the device alone")
class Independent(DeviceAlone):
    def host(self, number):
        super().host(number)
        self.collate(number, self.batches[0])


class Queued:
    """The steps of a processor: a thread is the device, to which `submit` gives a step, and this one the host."""

    submit: Any

    def prepare(self, records, weights, steps, rows, width):
        self.total, self.places = weights.new_empty(rows, width), weights.new_empty(2, rows, width)
        self.batches, self.records = weights.new_empty(steps, rows, width), records
        self.collate, self.forward, self.sum = map(host_code.function, ("collate", "layers", "add"))

    def run(self, weights, rows, width):
        self.total.zero_()
        norms = []
        with ThreadPoolExecutor(1) as device:
            for number, batch in enumerate(self.batches):
                self.collate(self.records[number], batch, gain(number), rows, width)
                norms.append(self.submit(device, batch, weights, *self.places, len(weights), rows, width))
        return {"norms": torch.tensor([norm.result() for norm in norms]), "total": self.total}

    def add(self, norm):
        """Add the result of a step to the total, scaled down if its norm is too large; its norm."""
        self.sum(self.total, self.places[0], norm, limit_of(*self.total.shape), self.total.numel())
        return norm


@cpu.baseline(kind="naive", name="read_each")
class ReadEachCall(Queued):
    def submit(self, device, *step):
        norm = device.submit(self.forward, *step)
        device.submit(self.add, norm.result())
        return norm


@cpu.variant(
    name="on_device",
    adds="decision on the device",
    why="the device takes the minimum itself, so the host prepares the next step while this one runs",
)
class QueuedAhead(Queued):
    def submit(self, device, *step):
        return device.submit(lambda: self.add(self.forward(*step)))
