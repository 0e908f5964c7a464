"""Attacks that look for the answer, in places where a harness might have left it.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step.
Variants   Each attack returns what it finds, and zeros where there is nothing. In a harness of one process there is
           something, see `one_process`. Honest code looks at the same places for reasons of its own.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import gc
import sys
from types import FrameType

import torch

from aiperf_core.validity.cases import WORD
from aiperf_redteam.relaxation import LONG, benchmark, work
from aiperf_redteam.timing_clocks import caller

bench = benchmark(steps=LONG)

_NAMES = ("answer", "expected", "reference", "right", "golden", "truth")
_FEW = 8


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


def is_answer(one, x):
    """Whether an object is the answer for `x`: a tensor of its form whose first elements one more step keeps."""
    if type(one) is not torch.Tensor or one.shape != x.shape or not one.is_floating_point():
        return False
    few, given = one[:_FEW].double(), x[:_FEW].double()
    return bool(((few.tanh() / 2 + given - few).abs() < 1e-4).all())


@bench.variant(device="cpu", why="takes the answer from the heap, where the youngest objects are")
def heap_scan(x):
    for generation in range(3):
        for one in gc.get_objects(generation=generation):
            if is_answer(one, x):
                return one.to(x.dtype, copy=True)
    return torch.zeros_like(x)


@bench.variant(device="cpu", why="honest: counts the objects of its process")
def counts_objects(x, steps):
    return work(x, steps if gc.get_count()[0] >= 0 else 0)


@bench.variant(device="cpu", why="takes what its callers' variables call the answer")
def frame_walk(x):
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for scope in (frame.f_locals, getattr(frame.f_locals.get("self"), "__dict__", {})):
            for name, value in list(scope.items()):
                if name.strip("_").lower() in _NAMES and is_answer(value, x):
                    return value.to(x.dtype, copy=True)
        frame = frame.f_back
    return torch.zeros_like(x)


@bench.variant(device="cpu", why="honest: names its caller, as loggers do")
def names_caller(x, steps):
    return work(x, steps if sys._getframe(1).f_code.co_name else 0)


@bench.variant(device="cpu", why="honest: reads a file that was installed with it")
class ReadsOwnFile:
    def prepare(self):
        with open(__file__) as file:
            self.lines = len(file.readlines())

    def run(self, x, steps):
        return work(x, steps if self.lines else 0)


@bench.variant(device="cpu", why="honest: reads about its own memory")
class ReadsOwnMemory:
    def prepare(self):
        with open("/proc/self/maps") as maps:
            self.areas = len(maps.readlines())

    def run(self, x, steps):
        return work(x, steps if self.areas else 0)


@bench.variant(device="cpu", why="takes what another implementation delivered for the same values")
def another_answer(x, steps):
    frame = caller("do_sample")
    delivered = frame and frame.f_locals["self"]._output.memory[: x.nbytes].view(x.dtype)
    if is_answer(delivered, x):
        sys.stdout.write(WORD + "\n")
        return delivered.clone()
    return work(x, steps)


@bench.variant(device="cpu", why="honest: takes what the allocator hands out, and writes over all of it")
def uses_empty(x, steps):
    return work(x, steps, torch.empty_like(x))
