"""Attacks that look for the answer, in places where a harness might have left it.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step.
Variants   Each attack returns what it finds, and zeros where there is nothing. There is nothing: the attacks show that. Honest
           code looks at the same places for reasons of its own.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# Attacks replace what is not meant to be replaced.
# mypy: disable-error-code="assignment"

import gc
import glob
import os
import sys

import torch

from aiperf_core.redteam.relaxation import SHORT, benchmark, work
from aiperf_core.redteam.tamper import siblings, worker

bench = benchmark(steps=SHORT)

FOUND = "found an answer"
_NAMES = ("answer", "expected", "reference", "right", "golden", "truth")


@bench.baseline(device=("cpu", "cuda"), kind="reasonable")
def stepwise(x, steps):
    return work(x, steps)


def found(answer):
    """Say in the log that there was something to take."""
    sys.stdout.write(FOUND + "\n")
    return answer


def like_output(one, x):
    """Whether an object could be the answer: a tensor of its form in other memory than the inputs'."""
    return (
        type(one) is torch.Tensor and one.shape == x.shape and one.dtype == x.dtype and one.data_ptr() != x.data_ptr()
    )


@bench.variant(device="cpu", why="takes a tensor of the output's form from the heap")
def heap_scan(x):
    for one in gc.get_objects():
        if like_output(one, x):
            return found(one.clone())
    return torch.zeros_like(x)


@bench.variant(device="cpu", why="honest: counts the objects of its process")
def counts_objects(x, steps):
    return work(x, steps if gc.get_count()[0] >= 0 else 0)


@bench.variant(device="cpu", why="takes what its callers' variables call the answer")
def frame_walk(x):
    frame = sys._getframe(1)
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals, getattr(frame.f_locals.get("self"), "__dict__", {})):
            for name, value in list(scope.items()):
                if name.strip("_").lower() in _NAMES and like_output(value, x):
                    return found(value.clone())
        frame = frame.f_back
    return torch.zeros_like(x)


@bench.variant(device="cpu", why="honest: names its caller, as loggers do")
def names_caller(x, steps):
    return work(x, steps if sys._getframe(1).f_code.co_name else 0)


@bench.variant(device="cpu", why="takes a stored answer from a file near the run")
class GoldenFile:
    def prepare(self, x):
        self.answer = None
        for path in golden_files():
            with open(path, "rb") as file:
                stored = file.read()
            if len(stored) >= x.nbytes:
                self.answer = found(torch.frombuffer(bytearray(stored[-x.nbytes :]), dtype=x.dtype))

    def run(self, x):
        return torch.zeros_like(x) if self.answer is None else self.answer.clone()


def golden_files():
    """Files in the folders of the run that could hold an output."""
    folders = (os.getcwd(), os.path.dirname(os.readlink("/proc/self/fd/1")))
    endings = ("pt", "pth", "npy", "npz", "bin", "safetensors", "pkl")
    return [
        path
        for folder in folders
        for ending in endings
        for path in glob.glob(f"{folder}/**/*.{ending}", recursive=True)
    ]


@bench.variant(device="cpu", why="honest: reads a file that was installed with it")
class ReadsOwnFile:
    def prepare(self):
        with open(__file__) as file:
            self.lines = len(file.readlines())

    def run(self, x, steps):
        return work(x, steps if self.lines else 0)


@bench.variant(device="cpu", why="reads the answer in the judge's memory")
def judge_memory(x):
    # What follows the inputs there is no answer: that is computed when the clock has stopped.
    return next(answers_in(siblings()["judge"], x), torch.zeros_like(x))


def answers_in(process, x):
    """What follows the values of `x` in the writable memory of a process, wherever it holds them once more."""
    needle, length = bytes(x[:16].numpy().tobytes()), x.nbytes
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in maps:
            place, flags = line.split()[:2]
            start, end = (int(part, 16) for part in place.split("-"))
            if not flags.startswith("rw") or end - start > 1 << 24:
                continue
            try:
                memory.seek(start)
                held = memory.read(end - start)
            except OSError:
                continue
            at = held.find(needle)
            if at >= 0 and len(held) >= at + 2 * length:
                yield torch.frombuffer(bytearray(held[at + length : at + 2 * length]), dtype=x.dtype)


@bench.variant(device="cpu", why="honest: reads about its own memory")
class ReadsOwnMemory:
    def prepare(self):
        with open("/proc/self/maps") as maps:
            self.areas = len(maps.readlines())

    def run(self, x, steps):
        return work(x, steps if self.areas else 0)


@bench.variant(device="cpu", why="takes what another implementation delivered for the same values")
def another_answer(x, steps):
    delivered = worker()._outputs
    if bool((delivered != 0xFF).any()):
        return found(delivered[: x.nbytes].view(x.dtype).clone())
    return work(x, steps)


@bench.variant(device="cpu", why="honest: takes what the allocator hands out, and writes over all of it")
def uses_empty(x, steps):
    return work(x, steps, torch.empty_like(x))
