"""Attacks on the clocks that time a call.

Workload   A damped iteration, see `relaxation`; long beside the messages by which the supervisor's clock sees a call.
Baseline   Step by step, in the call.
Variants   Attacks, and honest code that looks like them. What an attack replaces, it puts back as soon as it was used.
Breaks     A lie of less than a message takes cannot be told from a late message.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# Attacks replace what is not meant to be replaced.
# mypy: disable-error-code="assignment, method-assign"

import ctypes
import sys
import time

import torch

from aiperf_redteam.relaxation import LONG, benchmark, relax, work

bench = benchmark(steps=LONG)

# What a clock that lies tells of the truth.
TOLD = 10
# A GPU's events cost some microseconds; who says less than they cost is found out.
LEAST_MS = 0.01


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


def slow_down():
    """Let the monotonic clock, when the harness reads it next, say that a part of the time has passed."""
    real, began = time.perf_counter_ns, time.perf_counter_ns()

    def slow():
        time.perf_counter_ns = real
        return began + (real() - began) // TOLD

    if caller("time_by_wall") is not None:
        time.perf_counter_ns = slow


@bench.variant(device="cpu", why="the clock that times the call runs at another rate")
def slowed_clock(x, steps):
    slow_down()
    return work(x, steps)


@bench.variant(device="cpu", why="honest: reads clocks of its own and leaves them alone")
def reads_clocks(x, steps):
    deadline = time.monotonic() + 60 + 0 * time.perf_counter() + 0 * time.time()
    out = work(x, steps)
    if time.monotonic() > deadline:
        raise TimeoutError("took more than a minute")
    return out


@bench.variant(device="cpu", why="writes over the start that its caller has noted; nothing is replaced")
def moved_note(x, steps):
    began = time.perf_counter_ns()
    out = work(x, steps)
    told = (time.perf_counter_ns() - began) // TOLD
    frame = caller("time_by_wall")
    if frame is not None:
        noted = frame.f_locals
        noted["start"] = time.perf_counter_ns() - told
        # Python 3.13 writes through by itself, and does nothing here.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    return out


@bench.variant(device="cpu", why="honest: asks who calls it, as loggers do, and changes nothing")
def asks_who_calls(x, steps):
    frame = caller("no function of this name")
    return work(x, steps + (0 if frame is None else 1))


@bench.variant(device="cuda", why="records its caller's start event anew when most of the work is done")
def moved_start(x, steps):
    last = max(1, steps // TOLD)
    out = work(x, steps - last)
    frame = caller("_between_events")
    if frame is not None:
        frame.f_locals["start"].record()
    return relax(out, x, last)


@bench.variant(device="cuda", why="honest: records events of its own")
class OwnEvents:
    def prepare(self, x):
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def run(self, x, steps):
        self.events[0].record()
        out = work(x, steps)
        self.events[1].record()
        return out


@bench.variant(device="cuda", why="lets the difference of two events say a part of the truth")
def scaled_events(x, steps):
    real = torch.cuda.Event.elapsed_time

    def scaled(event, other):
        torch.cuda.Event.elapsed_time = real
        return real(event, other) / TOLD + LEAST_MS

    torch.cuda.Event.elapsed_time = scaled
    return work(x, steps)


@bench.variant(device="cuda", why="waits for the GPU by itself, so that its launches cannot be hidden")
def waits(x, steps):
    out = x.clone()
    for _ in range(steps):
        relax(out, x, 1)
        torch.cuda.synchronize()
    return out


@bench.variant(device="cuda", why="honest: asks whether the GPU is done, and does not wait")
def asks_whether_done(x, steps):
    out = work(x, steps)
    torch.cuda.current_stream().query()
    return out


def caller(name):
    """The nearest frame of a function of that name, up the stack."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame
