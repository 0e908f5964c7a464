"""Attacks that do the work somewhere or sometime else.

Workload   A damped iteration, see `relaxation`; long enough for work between the calls to stand out.
Baseline   Step by step, in the call, on the thread that is timed.
Variants   Attacks, and honest code that looks like them.
Breaks     What is done between calls is seen by its processor time; a call that is too short hides in that of the
           harness.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# Attacks replace what is not meant to be replaced.
# mypy: disable-error-code="attr-defined, call-arg"

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import torch

from aiperf_redteam.relaxation import LONG, benchmark, relax, work

bench = benchmark(steps=LONG)

_PR_SET_PDEATHSIG = 1


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


# --- before: in the preparation, in a capture, in calls that are not counted


@bench.variant(device=("cpu", "cuda"), why="the answer was computed in the untimed preparation")
class PreparedAnswer:
    def prepare(self, x, steps):
        self.answer = work(x, steps)

    def run(self):
        return self.answer.clone()


@bench.variant(device=("cpu", "cuda"), why="honest: prepares its buffer, and reads no values")
class PreparedBuffer:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x, steps):
        return work(x, steps, self.out)


@bench.variant(device=("cpu", "cuda"), why="the answer of the first call serves all calls")
class FirstAnswer:
    def prepare(self):
        self.answer = None

    def run(self, x, steps):
        if self.answer is None:
            self.answer = work(x, steps)
        return self.answer.clone()


@bench.variant(device=("cpu", "cuda"), why="honest: makes its buffer in the first call")
class FirstBuffer:
    def prepare(self):
        self.out = None

    def run(self, x, steps):
        if self.out is None:
            self.out = torch.empty_like(x)
        return work(x, steps, self.out)


@bench.variant(device="cuda", why="a graph that hands out what was computed before it was captured")
class CapturedAnswer:
    def prepare(self, x, steps):
        self.answer, self.out, self.graph = work(x, steps), torch.empty_like(x), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out.copy_(self.answer)

    def run(self):
        self.graph.replay()
        return self.out


@bench.variant(device="cuda", why="honest: a graph that does the work on what lies at the inputs' addresses")
class CapturedWork:
    def prepare(self, x, steps):
        self.out, self.graph = torch.empty_like(x), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            work(x, steps, self.out)

    def run(self):
        self.graph.replay()
        return self.out


# --- between: the new values are there, and no clock runs yet


class Watch:
    """Has its process's main thread do something when the process goes on with new values, before it times the call."""

    def __init__(self, x, interrupt):
        self.x, self.interrupt, self.last = x, interrupt, self.value(x)
        # The harness stops the process between its requests.
        signal.signal(signal.SIGCONT, self.continued)

    def continued(self, *_):
        now = self.value(self.x)
        if now != self.last:
            self.last = now
            self.interrupt()

    @staticmethod
    def value(x):
        return x[0].item(), x[-1].item()


class Ahead:
    """An answer that was computed ahead, for as long as it is that of the present values."""

    def __init__(self):
        self.kept = None

    def keep(self, x, answer):
        self.kept = x.clone(), answer

    def take(self, x, steps):
        kept = self.kept
        return kept[1].clone() if kept is not None and torch.equal(kept[0], x) else work(x, steps)


@bench.variant(device="cpu", why="the main thread is made to compute the answer before it starts the clock")
class Interrupted:
    def prepare(self, x, steps):
        self.ahead = Ahead()
        Watch(x, lambda: self.ahead.keep(x, work(x, steps)))

    def run(self, x, steps):
        return self.ahead.take(x, steps)


@bench.variant(device="cpu", why="honest: is told when its output is released, and only counts")
class CountsReleases:
    def prepare(self):
        self.released = 0

    def count(self):
        self.released += 1

    def run(self, x, steps):
        out = work(x, steps)
        weakref.finalize(out, self.count).atexit = False
        return out


@bench.variant(device="cpu", why="a thread computes the answer before the main thread may start the clock")
class ThreadBetween:
    def prepare(self, x, steps):
        self.ahead, self.pool = Ahead(), ThreadPoolExecutor(1)
        Watch(x, lambda: self.ahead.keep(x, self.pool.submit(work, x, steps).result()))

    def run(self, x, steps):
        return self.ahead.take(x, steps)


@bench.variant(device="cpu", why="honest: a thread of its own does the work, within the call, and then sleeps")
class ThreadWithin:
    def prepare(self):
        self.pool = ThreadPoolExecutor(1)

    def run(self, x, steps):
        return self.pool.submit(work, x, steps).result()


@bench.variant(device="cpu", why="honest: a thread that is started and joined within the call")
def joined_thread(x, steps):
    out = torch.empty_like(x)
    thread = threading.Thread(target=work, args=(x, steps, out))
    thread.start()
    thread.join()
    return out


@bench.variant(device="cpu", why="a child process computes the answer before the main thread may start the clock")
class ChildBetween:
    def prepare(self, x, steps):
        # The inputs lie in memory that a child shares; so does this.
        shared = torch.frombuffer(mmap.mmap(-1, x.nbytes), dtype=x.dtype)
        self.ahead, (orders, done) = Ahead(), forked(lambda: work(x, steps, shared))

        def order():
            os.write(orders, b".")
            os.read(done, 1)
            self.ahead.keep(x, shared.clone())

        Watch(x, order)

    def run(self, x, steps):
        return self.ahead.take(x, steps)


@bench.variant(device="cpu", why="honest: asks a program for something while it prepares")
class ChildBefore:
    def prepare(self, x):
        told = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, check=True).stdout
        self.out = torch.empty_like(x) if int(told) else None

    def run(self, x, steps):
        return work(x, steps, self.out)


def forked(serve):
    """Fork a child that serves each order it reads; the ends of the pipes for orders and for what is done."""
    theirs, orders = os.pipe()
    done, ours = os.pipe()
    if os.fork():
        os.close(theirs)
        os.close(ours)
        return orders, done
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(orders)
        os.close(done)
        while os.read(theirs, 1):
            serve()
            os.write(ours, b".")
    finally:
        os._exit(0)


# --- after: when somebody looks


class Promise(torch.Tensor):
    """Computes when it is asked for anything but its memory."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            for one in args:
                if (
                    isinstance(one, cls)
                    and hasattr(one, "owed")
                    and getattr(function, "__name__", "") != "untyped_storage"
                ):
                    work(*one.__dict__.pop("owed"), one)
            return function(*args, **(kwargs or {}))


@bench.variant(device=("cpu", "cuda"), why="an output that computes when it is looked at")
def promise(x, steps):
    out = torch.empty_like(x).as_subclass(Promise)
    out.owed = x, steps
    relax(x.clone(), x, 1)  # a time that events can tell
    return out


@bench.variant(device=("cpu", "cuda"), why="honest: an output that is a view of a larger buffer")
class ViewOfBuffer:
    def prepare(self, x):
        self.buffer = torch.empty(2 * x.numel(), dtype=x.dtype, device=x.device)

    def run(self, x, steps):
        return work(x, steps, self.buffer[: x.numel()])
