"""A variant that loads a compiled module, a copy of one of Python's, and returns the memory of its input."""

import _lsprof
import ctypes
import shutil
from pathlib import Path

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed", folder=True)


@bench.workload(smoke={"n": 1009})
def inputs(n, device, generator):
    return {"a": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return {"double": a * 2, "same": a.clone()}


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n)


@bench.baseline(device="cpu", kind="reasonable")
def doubled(a):
    return {"double": a * 2, "same": a.clone()}


@bench.variant(device="cpu", why="has a module for it")
class Compiled:
    def prepare(self, folder):
        copy = Path(folder) / "compiled.so"
        shutil.copy(_lsprof.__file__, copy)
        self.module = ctypes.PyDLL(str(copy))

    def run(self, a):
        return {"double": a * 2, "same": a}
