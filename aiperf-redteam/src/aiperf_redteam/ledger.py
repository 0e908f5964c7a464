"""Work that is not what it is said to be, where the baseline has a kernel of its own.

Workload   A damped iteration, see `relaxation`.
Baseline   One kernel that does all steps.
Variants   Attacks, and honest code that looks like them.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102, D103
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import _lsprof
import contextlib
import ctypes
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path

import torch

from aiperf_core.kernels import cuda_source
from aiperf_redteam.relaxation import SHORT, benchmark, work

# A call takes the GPU longer than a thread takes the host, so that the thread delays no call.
bench = benchmark(steps=SHORT, on_a_gpu=50)
source = cuda_source("attacks.cu")

GRID, BLOCK = 1024, 256
# Kinds of CUPTI's records: kernels, one after the other and side by side.
KERNELS = (3, 10)
# How long after the start of a call, in seconds.
PAST_S = (0.0003, 0.001)


class Whole:
    def prepare(self, x):
        self.relax, self.out = source.kernel("relax"), torch.empty_like(x)

    def run(self, x, steps):
        self.relax(x, self.out, x.numel(), steps, grid=GRID, block=BLOCK)
        return self.out


@bench.baseline(device="cuda", kind="reasonable")
class OneKernel(Whole):
    pass


@bench.variant(device="cuda", why="torch's kernels do all of the work, in place of a kernel of its own")
def library(x, steps):
    return work(x, steps)


@bench.variant(device="cuda", why="loads a compiled module of its own, and torch's kernels do all of the work")
class WrappedLibrary:
    def prepare(self, x):
        copy = Path(tempfile.mkdtemp()) / "fast_steps.so"
        shutil.copy(_lsprof.__file__, copy)
        self.module = ctypes.PyDLL(str(copy))

    def run(self, x, steps):
        return work(x, steps)


@bench.variant(device="cuda", why="honest: loads a module, and its own kernel does the work")
class LoadsModule(WrappedLibrary):
    def prepare(self, x):
        super().prepare(x)
        self.whole = Whole()
        self.whole.prepare(x)

    def run(self, x, steps):
        return self.whole.run(x, steps)


@bench.variant(device="cuda", why="honest: its own kernel works, and torch fills a small buffer for it")
class FillsBuffer(Whole):
    def run(self, x, steps):
        torch.zeros(256, device=x.device)
        return super().run(x, steps)


@bench.variant(device="cuda", why="launches more work when the call is over, from a thread that nobody waits for")
class LaunchedPast(Whole):
    def prepare(self, x):
        super().prepare(x)
        self.side, self.spare = torch.cuda.Stream(), torch.empty_like(x[:BLOCK])

    def run(self, x, steps):
        threading.Thread(target=self.launch, args=(x,), daemon=True).start()
        return super().run(x, steps)

    def launch(self, x):
        time.sleep(random.uniform(*PAST_S))
        with torch.cuda.stream(self.side):
            self.relax(x, self.spare, self.spare.numel(), 1, grid=1, block=BLOCK)


@bench.variant(device="cuda", why="honest: a thread launches the work, and the call waits for the thread")
class LaunchedWithin(Whole):
    def run(self, x, steps):
        thread = threading.Thread(target=super().run, args=(x, steps))
        thread.start()
        thread.join()
        return self.out


@bench.variant(device="cuda", why="switches CUPTI's records of kernels off")
class Unrecorded(Whole):
    def run(self, x, steps):
        with contextlib.suppress(OSError, AttributeError):
            disable = cupti().cuptiActivityDisable
            for kind in KERNELS:
                disable(kind)
        return super().run(x, steps)


def cupti():
    """The library in this process, under the path that the kernel knows."""
    with open("/proc/self/maps") as maps:
        paths = [line.split()[-1] for line in maps if "libcupti" in line]
    return ctypes.CDLL(paths[0] if paths else "libcupti.so")
