"""Work that is put off until the clock has stopped.

Workload   A damped iteration, see `relaxation`; short, so that what is put off on a processor is no more than what
           processes do between calls anyway.
Baseline   Step by step, in the call.
Variants   Attacks, and honest code that looks like them.
Breaks     A call of some milliseconds would be found by the processor time that is used while no clock runs.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# mypy: disable-error-code="var-annotated"

import signal
import threading
from queue import SimpleQueue

import torch

from aiperf_core.kernels import cuda_source
from aiperf_redteam.relaxation import SHORT, benchmark, relax, work

bench = benchmark(steps=SHORT)
source = cuda_source("attacks.cu")

GRID, BLOCK = 1024, 256

# After the call has returned and its output was looked at; before the judge's copy is made.
PUT_OFF_S = 300e-6


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


def alarmed(finish):
    """Have the main thread do something a moment after the call has returned, and leave no handler behind."""

    def handler(*_):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        finish()

    # One that is still to come must find its handler.
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, PUT_OFF_S)


@bench.variant(device="cpu", why="a signal handler does the work when the clock has stopped")
class Alarm:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x, steps):
        alarmed(lambda: work(x, steps, self.out))
        return self.out


@bench.variant(device="cpu", why="honest: a handler that is set and put back within the call")
def handler_within(x, steps):
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    out = work(x, steps)
    signal.signal(signal.SIGALRM, before)
    return out


@bench.variant(device="cuda", why="a thread launches the work as soon as the clock has stopped")
class LateThread:
    def prepare(self, x, steps):
        self.relax, self.out = source.kernel("relax"), torch.empty_like(x)
        self.relax(x, self.out, x.numel(), steps, grid=GRID, block=BLOCK)
        self.calls, self.busy = SimpleQueue(), False
        threading.Thread(target=self.finish, args=(x, steps), daemon=True).start()

    def finish(self, x, steps):
        while True:
            self.calls.get().synchronize()
            self.relax(x, self.out, x.numel(), steps, grid=GRID, block=BLOCK)
            self.busy = False

    def run(self, x):
        relax(x.clone(), x, 1)  # a time that events can tell
        # Of calls without a pause, whose output nobody looks at, some go without their work.
        if not self.busy:
            self.busy, queued = True, torch.cuda.Event()
            queued.record()
            self.calls.put(queued)
        return self.out


@bench.variant(device=("cpu", "cuda"), why="honest: a thread of the call's own, which the call waits for")
def joined_thread(x, steps):
    out = torch.empty_like(x)
    thread = threading.Thread(target=work, args=(x, steps, out))
    thread.start()
    thread.join()
    return out


@bench.variant(device="cuda", why="a second stream that nobody waits for")
class UnjoinedStream:
    def prepare(self, x):
        self.side, self.out = torch.cuda.Stream(), torch.empty_like(x)

    def run(self, x, steps):
        with torch.cuda.stream(self.side):
            work(x, steps, self.out)
        relax(x.clone(), x, 1)  # a time that events can tell
        return self.out


@bench.variant(device="cuda", why="a second stream that is joined at the start of the next call, long after the clock")
class JoinedLater:
    def prepare(self, x):
        self.side, self.out = torch.cuda.Stream(), torch.empty_like(x)

    def run(self, x, steps):
        here = torch.cuda.current_stream()
        here.wait_stream(self.side)
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            work(x, steps, self.out)
        relax(x.clone(), x, 1)
        return self.out


@bench.variant(device="cuda", why="honest: a second stream that the call joins")
class JoinedStream:
    def prepare(self, x):
        self.side, self.out = torch.cuda.Stream(), torch.empty_like(x)

    def run(self, x, steps):
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            work(x, steps, self.out)
        here.wait_stream(self.side)
        return self.out
