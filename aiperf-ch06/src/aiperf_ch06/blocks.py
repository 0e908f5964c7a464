"""Blocks of compiled kernels, and the rate of vector additions by the size of a block."""

import statistics
from typing import TYPE_CHECKING

import torch
from attrs import frozen

from aiperf_ch06.vector_add import device_code
from aiperf_core.errors import KernelError, SkipError

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins

SIZES = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
KERNELS = {"thread_per_element": 1, "wide": 4}  # values of a thread
REPEATS, BYTES_OF_A_VALUE = 7, 12


@frozen
class Needs:
    """Needs of a kernel: threads of a block, registers of a thread, shared memory of a block."""

    kernel: str
    threads: int
    registers: int
    shared_bytes: int


def needs_of(plugins: "Plugins", pattern: str, arch: str, threads: int, dynamic_bytes: int) -> list[Needs]:
    """Needs of the kernels of targets, compiled for an architecture.

    threads: for kernels without launch bounds. dynamic_bytes: shared memory beside the static one.

    Raises `UsageError` for a pattern that reaches nothing. Where nothing was compiled, raises `KernelError` with the
    error, or `SkipError` with the reason.
    """
    from aiperf_core.kernels import compile_all

    modules = [(one.target.name, one.target.module) for one in plugins.select([pattern])]
    outcomes = list(compile_all(modules, [arch]))
    found = [
        Needs(name, needs.threads or threads, needs.registers, needs.shared_bytes + dynamic_bytes)
        for one in outcomes
        for name, needs in one.resources.items()
    ]
    if not found:
        if wrong := next((one for one in outcomes if one.status == "failed"), None):
            raise KernelError(f"{wrong.file} of {wrong.target}: {wrong.reason}")
        reasons = dict.fromkeys(one.reason for one in outcomes if one.reason)
        raise SkipError(f"{pattern!r} has no kernel for {arch}: {'; '.join(reasons) or 'it has none for a GPU'}")
    return found


def rates(size_bytes: int) -> dict[int, dict[str, float]]:
    """Bytes a second of additions by the threads of a block and by kernel; three arrays of a size.

    Raises `SkipError` without a GPU.
    """
    if not torch.cuda.is_available():
        raise SkipError("that needs a GPU, and torch finds none")
    n = size_bytes // 4
    a, b = (torch.ones(n, device="cuda") for _ in range(2))
    out = torch.empty_like(a)
    return {
        threads: {
            name: BYTES_OF_A_VALUE * n / _seconds(name, a, b, out, threads * values) for name, values in KERNELS.items()
        }
        for threads in SIZES
    }


def _seconds(name: str, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, values_of_block: int) -> float:
    """The median of some launches after one that does not count."""
    kernel, n = device_code.kernel(name), len(a)
    block = values_of_block // KERNELS[name]
    times: list[float] = []
    for _ in range(1 + REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        kernel(a, b, out, n, grid=-(-n // values_of_block), block=block)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times[1:])
