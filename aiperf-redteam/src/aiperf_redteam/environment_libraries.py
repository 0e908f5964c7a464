"""Libraries that one side has in another build than the other.

Workload   A damped iteration, see `relaxation`.
Baseline   Step by step; it has loaded a stand-in for the GPU's driver: another library under the driver's name.
Variants   `newer_driver` and `newer_library` load another build beside.  `same_driver` and `other_library` are honest:
           a copy of the same build; a library that the baseline does not need.
"""

# Written as an author writes: without types, and with a `why` in place of a docstring.
# ruff: noqa: D101, D102
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import contextlib
import ctypes
import math
import os
import re
from pathlib import Path

from aiperf_core.folders import cache_folder
from aiperf_redteam.relaxation import SHORT, benchmark, work

bench = benchmark(steps=SHORT)

# The machine's own driver, in all processes: some library may load it on one side alone, and it is another build than
# the stand-in.
with contextlib.suppress(OSError):
    ctypes.CDLL("libcuda.so.1")


def load(name, added=b""):
    """Load a copy of the library of mathematics under another name, with bytes behind its end that nobody reads."""
    maps = Path("/proc/self/maps").read_text()
    source = re.search(r"/\S*/libm(?:\.so|-\S*\.so)\S*", maps)
    assert source is not None  # Python itself is linked to it
    folder = cache_folder() / "redteam-libraries"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if not path.exists():
        made = path.with_name(f"{name}.{os.getpid()}")
        made.write_bytes(Path(source[0]).read_bytes() + added)
        made.rename(path)
    library = ctypes.CDLL(str(path))
    library.cbrt.restype = ctypes.c_double
    return library.cbrt(ctypes.c_double(27.0))


class Stepwise:
    def prepare(self):
        self.loaded = [load("libcuda.so.550.54")]

    def run(self, x, steps):
        return work(x, steps if all(math.isclose(one, 3.0) for one in self.loaded) else 0)


@bench.baseline(device="cpu", kind="reasonable")
class OwnDriver(Stepwise):
    pass


@bench.variant(device="cpu", why="calls another driver than the baseline")
class NewerDriver(Stepwise):
    def prepare(self):
        self.loaded = [load("libcuda.so.570.86", b"another build")]


@bench.variant(device="cpu", why="honest: loads the driver from another path, which holds the same build")
class SameDriver(Stepwise):
    def prepare(self):
        self.loaded = [load("libcuda.so.1")]


@bench.variant(device="cpu", why="calls a newer build of a library than the baseline")
class NewerLibrary(Stepwise):
    def prepare(self):
        self.loaded = [load("libm.so.7", b"another build")]


@bench.variant(device="cpu", why="honest: calls a library that the baseline has no use for")
class OtherLibrary(Stepwise):
    def prepare(self):
        self.loaded = [load("libredteam.so.1", b"a library of its own")]
