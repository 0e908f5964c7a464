"""`emulated` compiles a kernel file for the host, with the emulator in place of CUDA, and launches on torch tensors."""

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import aiperf_ch10

KERNELS = Path(aiperf_ch10.__file__).parent / "kernels"
EMULATOR = Path(__file__).parent / "emulator"
HEADER, LIBRARY = "cuda_on_host.h", "kernels.so"
# Hidden symbols: each library has variables of its own, also beside another of these libraries. Not fortified: that
# takes a jump to another stack for an error.
FLAGS = ("-std=c++17", "-O1", "-w", "-fno-strict-aliasing", "-fvisibility=hidden", "-fPIC", "-pthread",
         "-U_FORTIFY_SOURCE")  # fmt: skip


def gcc(*arguments: str | Path) -> None:
    """Run g++."""
    run = subprocess.run(["g++", *FLAGS, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[:3000]


class Emulated:
    """A file of kernels as a library of the host."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    @staticmethod
    def compile(name: str, header: Path, folder: Path) -> None:
        """Make the library in a folder. `header` has the compiled header."""
        # Dynamic shared memory is declared `extern`; here it is defined.
        text = (KERNELS / name).read_text().replace("extern __shared__", "__shared__").replace("[];", "[1 << 17];")
        source = folder / name
        source.write_text(text)
        folders = (f"-I{header}", f"-I{EMULATOR}", f"-I{KERNELS}")
        gcc("-x", "c++", "-shared", "-include", HEADER, *folders, source, "-o", folder / LIBRARY)

    def launch(self, name: str, *args: Any, grid: tuple[int, int], threads: int, **how: int) -> None:
        """Launch, and demand that every wait ends. `how` has cluster, eager, at_once and seed."""
        values = (ctypes.c_long * 12)(*(self._word(one) for one in args))
        kernel = ctypes.cast(getattr(self.library, name), ctypes.c_void_p)
        how = {"cluster": 1, "eager": 1, "at_once": 0, "seed": 1, **how}
        assert self.library.emulate(kernel, values, *grid, threads, *map(int, how.values())), (
            f"{name}: a wait does not end, or an address is not aligned"
        )

    @staticmethod
    def box_map(matrix: torch.Tensor, box: tuple[int, int], swizzle_bytes: int) -> Any:
        """What the emulator takes for a tensor map of a matrix of two-byte elements."""
        data = struct.pack("7q", matrix.data_ptr(), *matrix.shape, 2 * matrix.stride(0), *box, swizzle_bytes)
        return ctypes.create_string_buffer(data, len(data))

    @staticmethod
    def _word(value: Any) -> int:
        if isinstance(value, torch.Tensor):
            return value.data_ptr()
        return ctypes.addressof(value) if isinstance(value, ctypes.Array) else int(value)


@pytest.fixture(scope="session")
def emulated(once: Callable[[str, Callable[[Path], object]], Path]) -> Callable[[str], Emulated]:
    """Compile a file of kernels by name, once for all tests. Skips where there is no g++."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")

    def compile_header(folder: Path) -> None:
        gcc("-x", "c++-header", EMULATOR / HEADER, "-o", folder / f"{HEADER}.gch")

    header = once("emulator", compile_header)
    return lambda name: Emulated(once(f"emulated-{name}", partial(Emulated.compile, name, header)) / LIBRARY)
