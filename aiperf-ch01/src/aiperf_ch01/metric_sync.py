"""Metrics: reading or storing one in every step makes the training wait for it.

Question    What does a training loop lose to the loss value that it records in every step?
Numbers     100 steps of a network of 2 x 1024^2 weights, each a CUDA graph, so that the host is not the bound. On a CPU
            each record must be on disk at the end. The floor is `unlogged`: the same steps without records.
Prediction  `.item()` waits for the step to end, and the GPU then idles for as long as a launch and a copy of 4 bytes
            take, some 15 us a step. Reading ten at a time loses a tenth of that, reading once nothing.
Limits      Steps that take far longer than a launch: the wait is then a small part. A crash loses all records that are
            not read or written yet, and a loss that explodes is seen later.
"""

import math
import os
import queue
import tempfile
import threading
from functools import partial

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.graphs import captured

bench = Benchmark(goal="throughput", clock="wall", cache="warm", folder=True)
cuda, cpu = bench.on("cuda"), bench.on("cpu")

RATE = 1.0
EVERY = 10


@bench.workload(
    state=("up", "down"),
    smoke={"steps": 23, "batch": 5, "width": 17},
    cpu={"steps": 200, "batch": 8, "width": 32},
    cuda={"steps": 100, "batch": 64, "width": 1024},
)
def inputs(steps, batch, width, device, generator):
    def normal(*size):
        return torch.randn(*size, device=device, generator=generator)

    return {
        "x": normal(steps, batch, width),
        "y": normal(steps, batch, width),
        "up": normal(width, width) / math.sqrt(width),
        "down": normal(width, width) / math.sqrt(width),
    }


@bench.reference(tolerance=fp32_reduction)
@torch.enable_grad()
def reference(x, y, up, down):
    losses, weights = [], [up.requires_grad_(), down.requires_grad_()]
    for examples, wanted in zip(x, y, strict=True):
        loss = torch.nn.functional.mse_loss(torch.tanh(examples @ up) @ down, wanted)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= RATE * gradient
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), "up": up.detach(), "down": down.detach()}


@bench.cost
def cost(steps, batch, width):
    # Per step two products forward, and backward one for each matrix and one for what lies between them.
    return Cost(
        bytes_read=4 * (2 * steps * batch * width + 2 * width * width),
        bytes_written=4 * 2 * width * width,
        flops=5 * 2 * steps * batch * width * width,
        tokens=steps * batch,
    )


bench.awkward({"steps": 1, "batch": 1, "width": 61}, {"steps": 31, "batch": 7, "width": 13})
# At least 95 % of the steps a second of the loop without records.
cuda.reach(of="time:unlogged", at_most=1 / 0.95)


def train_step(x, y, up, down, loss):
    """Write the loss of one step to `loss`, a tensor of one element, and move the weights against its gradient."""
    between = (x @ up).tanh_()
    error = (between @ down).sub_(y)
    torch.mean(error.square(), (0, 1), out=loss)
    error *= 2 / error.numel()
    towards = (error @ down.t()).mul_(1 - between.square())
    down.addmm_(between.t(), error, alpha=-RATE)
    up.addmm_(x.t(), towards, alpha=-RATE)


def one_step(*arguments):
    """A step as a call without arguments."""
    return captured(train_step, *arguments).replay if arguments[0].is_cuda else partial(train_step, *arguments)


class Steps:
    """The steps with their memory for losses, and the order of a run. A folder on disk is for those that write."""

    def prepare(self, x, y, up, down, folder):
        self.folder = folder
        self.losses = torch.empty(len(x), device=x.device)
        self.places = self.losses.unbind()
        self.steps = [one_step(*parts, up, down, loss) for *parts, loss in zip(x, y, self.places, strict=True)]

    def run(self, up, down):
        self.begin()
        for number, (step, place) in enumerate(zip(self.steps, self.places, strict=True)):
            step()
            self.after(number, place)
        # The judge compares the host's losses on the device of the weights.
        losses = torch.tensor(self.finish(), device=self.losses.device)
        return {"losses": losses, "up": up, "down": down}

    def begin(self):
        self.records = []

    def after(self, number, loss):
        """Called after each step."""

    def finish(self):
        """The losses as numbers, which `records` holds unless an implementation has them elsewhere."""
        return self.records


@cuda.baseline(kind="naive")
class Item(Steps):
    def after(self, number, loss):
        self.records.append(loss.item())


@cuda.variant(adds="interval", why="the host waits once in ten steps, and between two waits it runs ahead of the GPU")
class EveryTenth(Steps):
    def after(self, number, loss):
        if (number + 1) % EVERY == 0:
            self.records += self.losses[number + 1 - EVERY : number + 1].tolist()

    def finish(self):
        return self.records + self.losses[len(self.records) :].tolist()


@cuda.variant(
    adds="asynchronous copies",
    why="copies to pinned memory need no waiting, and an event tells which have arrived: the host knows each loss a "
    "step or two late, for one more copy and event in every step",
)
class PinnedRing(Steps):
    def prepare(self, x, y, up, down, folder):
        super().prepare(x, y, up, down, folder)
        self.arrived = torch.empty(len(x), pin_memory=True)
        self.slots = self.arrived.unbind()
        self.events = [torch.cuda.Event() for _ in self.slots]

    def after(self, number, loss):
        self.slots[number].copy_(loss, non_blocking=True)
        self.events[number].record()
        while len(self.records) <= number and self.events[len(self.records)].query():
            self.records.append(self.slots[len(self.records)].item())

    def finish(self):
        self.events[-1].synchronize()
        return self.records + self.arrived[len(self.records) :].tolist()


@cuda.variant(adds="one read", why="the host waits once, so the GPU always has the next step to go on with")
class ReadOnce(Steps):
    def finish(self):
        return self.losses.tolist()


class Logged(Steps):
    """Keeps the records in a file; at the end it is on disk, and is read back."""

    def begin(self):
        self.file = tempfile.TemporaryFile("w+", dir=self.folder)  # noqa: SIM115 - closed by `finish`

    def write(self, records):
        """Hand lines of text to the operating system and wait until they are on disk."""
        self.file.write("".join(f"{record!r}\n" for record in records))
        self.file.flush()
        os.fsync(self.file.fileno())

    def finish(self):
        with self.file as file:
            file.seek(0)
            return [float(line) for line in file]


@cpu.baseline(kind="naive")
class SyncedEachStep(Logged):
    def after(self, number, loss):
        self.write([loss.item()])


@cpu.variant(adds="one write", why="the program waits for the disk once, and writes all records in one piece")
class Buffered(Logged):
    def finish(self):
        self.write(self.losses.tolist())
        return super().finish()


@cpu.variant(
    adds="background thread", why="a thread waits for the disk beside the steps, and writes all waiting records"
)
class BackgroundThread(Logged):
    def begin(self):
        super().begin()
        self.waiting: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self.writer = threading.Thread(target=self.write_records)
        self.writer.start()

    def after(self, number, loss):
        self.waiting.put(loss.item())

    def finish(self):
        self.waiting.put(None)
        self.writer.join()
        return super().finish()

    def write_records(self):
        """Write and flush the records that came since the last flush, until None comes."""
        more = True
        while more:
            records = [self.waiting.get()]
            while not self.waiting.empty():
                records.append(self.waiting.get())
            more = records[-1] is not None
            self.write(record for record in records if record is not None)


@bench.yardstick(device=("cpu", "cuda"), why="the floor: the same steps without records")
class Unlogged(Steps):
    def run(self, up, down):
        for step in self.steps:
            step()
        return {"losses": self.losses, "up": up, "down": down}
