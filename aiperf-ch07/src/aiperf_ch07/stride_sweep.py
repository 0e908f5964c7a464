"""How bandwidth falls as accesses move apart, by the width of an access."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from attrs import frozen

from aiperf_core.errors import SkipError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source

device_code = cuda_source("stride_sweep.cu")
host_code = host_source("stride_sweep.c")

WIDTHS = (4, 8, 16)
STRIDES = (1, 2, 4, 8, 16, 32, 64)
THREADS, REPEATS = 256, 5
# What is read at a time, each byte of it once: several times the last-level cache.
BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}


@frozen
class Point:
    """The median rate at which bytes that were asked for arrived, with words of `width_bytes`, `stride` words apart."""

    device: str
    width_bytes: int
    stride: int
    bytes_per_s: float


def sweep(device: str | None, size_bytes: int | None = None) -> Iterator[Point]:
    """Measure every width and stride; None for the GPU, or the CPU where there is none.

    Raises `SkipError` where there is no GPU or no compiler.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise SkipError("--device cuda needs a GPU, and torch finds none. To measure the processor: --device cpu")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    size = size_bytes or BYTES[device]
    find = device_code.kernel if device == "cuda" else host_code.function
    kernels: dict[int, Any] = {width: find(f"sweep{width}") for width in WIDTHS}
    a = torch.ones(size // 4, device=device)
    out = torch.empty(4, device=device)
    for width in WIDTHS:
        for stride in STRIDES:
            n = size // width
            rate = n // stride * stride * width / _seconds(device, _call(device, kernels[width], a, out, n, stride))
            yield Point(device, width, stride, rate)


def _call(device: str, kernel: Any, a: torch.Tensor, out: torch.Tensor, n: int, stride: int) -> Callable[[], None]:
    if device == "cpu":
        return lambda: kernel(a, out, n, stride)
    blocks = grid_that_fills(kernel, THREADS)
    return lambda: kernel(a, out, n, stride, grid=blocks, block=THREADS)


def _seconds(device: str, call: Callable[[], None]) -> float:
    """The median of some calls after one that does not count. Whatever a call reads, the next finds evicted."""
    call()
    times: list[float] = []
    for _ in range(REPEATS):
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        else:
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
    return statistics.median(times)
