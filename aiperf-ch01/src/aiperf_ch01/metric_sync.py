"""Metrics: reading or storing one in every step makes the training wait for it.

Workload   Training steps of a small network, 2 matrices and mean squared error, by gradient descent. The loss of every
           step is recorded: on a GPU the host must know it in the end, on a CPU it must stand in a file on disk.
Baseline   cuda: `.item()` in every step, so that the host launches the next step only when this one is over.
           cpu: each record is written and flushed to the disk (fsync) before the next step begins.
Variants   `every_tenth` (cuda): the losses stay on the GPU and are read ten at a time.  `pinned_ring` (cuda): they are
           copied to the host's memory beside the steps, and picked up when they have arrived.  `read_once` (cuda): they
           are read when all steps are done.
           `buffered` (cpu): written at once when all steps are done.  `background_thread` (cpu): another thread writes
           and flushes what has come together, while the steps go on.
Breaks     Steps that take far longer than a launch: the wait is then a small part. Steps that take less than their own
           launches (`--set batch=64`): the GPU waits for the host anyway. What has not been read or written is lost in
           a crash, and a loss that explodes is seen later. Where temporary files lie in memory, fsync is free.
"""

import math
import os
import queue
import tempfile
import threading

import torch

from aiperf_core import Benchmark, Cost, fp32_reduction

bench = Benchmark(goal="throughput", clock="wall", cache="warm")

RATE = 1.0
EVERY = 10


@bench.workload(
    state=("up", "down"),
    smoke={"steps": 23, "batch": 5, "width": 17},
    cpu={"steps": 200, "batch": 8, "width": 32},
    cuda={"steps": 100, "batch": 1024, "width": 1024},
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


def train_step(x, y, up, down, loss):
    """Write the loss of one step to `loss`, a tensor of one element, and move the weights against its gradient."""
    between = (x @ up).tanh_()
    error = (between @ down).sub_(y)
    torch.mean(error.square(), (0, 1), out=loss)
    error *= 2 / error.numel()
    towards = (error @ down.t()).mul_(1 - between.square())
    down.addmm_(between.t(), error, alpha=-RATE)
    up.addmm_(x.t(), towards, alpha=-RATE)


class Steps:
    """Memory for the losses, and the order of a run: all steps, what is done after each, and what at the end."""

    def prepare(self, x):
        self.losses = torch.empty(len(x), device=x.device)
        self.places = self.losses.unbind()

    def run(self, x, y, up, down):
        self.begin()
        for number, place in enumerate(self.places):
            train_step(x[number], y[number], up, down, place)
            self.after(number, place)
        # What the host has goes back to the device, so that the judge can compare it with the weights.
        return {"losses": torch.tensor(self.finish(), device=x.device), "up": up, "down": down}

    def begin(self):
        self.records = []

    def after(self, number, loss):
        """Called after each step."""

    def finish(self):
        """The losses as numbers, which `records` holds unless an implementation has them elsewhere."""
        return self.records


@bench.baseline(device="cuda", kind="naive")
class Item(Steps):
    def after(self, number, loss):
        self.records.append(loss.item())


@bench.variant(device="cuda", why="the host waits once in ten steps, and between two waits it runs ahead of the GPU")
class EveryTenth(Steps):
    def after(self, number, loss):
        if (number + 1) % EVERY == 0:
            self.records += self.losses[number + 1 - EVERY : number + 1].tolist()

    def finish(self):
        return self.records + self.losses[len(self.records) :].tolist()


@bench.variant(device="cuda", why="copies to pinned memory need no waiting; an event tells which have arrived")
class PinnedRing(Steps):
    def prepare(self, x):
        super().prepare(x)
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


@bench.variant(device="cuda", why="the host waits once, so the GPU always has the next step to go on with")
class ReadOnce(Steps):
    def finish(self):
        return self.losses.tolist()


class Logged(Steps):
    """Keeps the records in a file; at the end it is on disk, and is read back."""

    def begin(self):
        self.file = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `finish`

    def write(self, records):
        """Hand lines of text to the operating system and wait until they are on disk."""
        self.file.write("".join(f"{one!r}\n" for one in records))
        self.file.flush()
        os.fsync(self.file.fileno())

    def finish(self):
        with self.file as file:
            file.seek(0)
            return [float(line) for line in file]


@bench.baseline(device="cpu", kind="naive")
class SyncedEachStep(Logged):
    def after(self, number, loss):
        self.write([loss.item()])


@bench.variant(device="cpu", why="the disk is waited for once, and gets all records in one piece")
class Buffered(Logged):
    def finish(self):
        self.write(self.losses.tolist())
        return super().finish()


@bench.variant(device="cpu", why="the disk is waited for beside the steps, by a thread that takes all that is there")
class BackgroundThread(Logged):
    def begin(self):
        super().begin()
        self.waiting: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self.writer = threading.Thread(target=self.write_what_comes)
        self.writer.start()

    def after(self, number, loss):
        self.waiting.put(loss.item())

    def finish(self):
        self.waiting.put(None)
        self.writer.join()
        return super().finish()

    def write_what_comes(self):
        """Until None comes, write and flush whatever has come together since the last flush."""
        more = True
        while more:
            records = [self.waiting.get()]
            while not self.waiting.empty():
                records.append(self.waiting.get())
            more = records[-1] is not None
            self.write(one for one in records if one is not None)
