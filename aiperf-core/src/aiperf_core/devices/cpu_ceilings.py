"""The ceilings of the CPU, from torch and from C loops when there is a compiler."""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from aiperf_core.devices.cpu import caches_bytes, keep_freed_memory
from aiperf_core.devices.host import processor
from aiperf_core.devices.measuring import Best, Form, Page, Shape, product_rate, quickest, shortest, wall
from aiperf_core.errors import AiperfError
from aiperf_core.kernels import host_source

# Strict C11 forbids fused multiply-add, which the loops are about.
_source = host_source("ceilings.c", options=("-ffp-contract=fast",))

# The first shape is a probe: a precision that the CPU only emulates stops there.
SHAPES: tuple[Shape, ...] = ((256, 256, 256), (1024, 1024, 1024), (2048, 1024, 1536), (2048, 2048, 2048))
PRODUCTS = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}
# Array size in units of the last-level caches, so that little of an array stays in them.
_BEYOND_CACHES = 4
_LARGEST_SHARE = 16  # of the memory that is free, for one array
_ALIGNED = 64 * 8
# Budgets in seconds of one form, and of the products of one precision, in each repetition.
_REPETITIONS = 2
_BANDWIDTH_S = 0.04
_PRODUCT_S = 0.15
_FMA_ROUNDS = 500_000
_LINE_BYTES, _RANDOM_ROUNDS = 64, 20_000
# A chain of reads lies beyond the first cache, and within those that a processor does not share.
_CHAIN_BYTES, _CHAIN_STEPS = 1 << 20, 1 << 16


def fill(page: Page, whole: bool, array_bytes: int | None = None) -> str:
    """Measure into `page` and return the device's name. Tests set `array_bytes`, the size of an array."""
    keep_freed_memory()
    arrays = _Bandwidths(array_bytes or _array_bytes())
    # All figures, then all again: disturbances come in bursts, and rarely hit a figure in every repetition.
    for _ in range(_REPETITIONS):
        arrays.fill(page, whole)
        _fill_arithmetic(page)
        if whole:
            page.take("cache_bytes_per_s", "last-level cache", _cache_rate)
    if whole:
        _fill_clocks(page)
    return f"{processor()}, {torch.get_num_threads()} threads"


def _fill_arithmetic(page: Page) -> None:
    products: dict[str, Callable[[Shape], Iterator[Form]]] = {
        name: partial(_float_products, dtype) for name, dtype in PRODUCTS.items()
    }
    for name, forms in {**products, "int8": _int8_products}.items():
        label = f"{name} matmul"
        page.take(f"flop_per_s.{name}", label, partial(product_rate, wall, forms, SHAPES, _PRODUCT_S))
    for name in ("fp32", "fp64"):
        page.take(f"vector_flop_per_s.{name}", f"{name} multiply-add", partial(_fma_rate, f"fma{name[2:]}"))


class _Bandwidths:
    """Loops over arrays far larger than the caches."""

    def __init__(self, array_bytes: int) -> None:
        count = array_bytes // 8
        # All threads write, so that each page lies on the NUMA node that will use it.
        self._a, self._b, self._c = (torch.empty(count, dtype=torch.float64).fill_(1.5) for _ in range(3))
        self._size, self._count = 8.0 * count, count

    def fill(self, page: Page, whole: bool) -> None:
        a, b, c, count = self._a, self._b, self._c, self._count
        take = partial(self._take, page)
        take("copy_bytes_per_s", 2, ("torch copy_", lambda: c.copy_(a)), "copy", c, a, count)
        take("read_bytes_per_s", 1, ("torch sum", a.sum), "read", a, count, 1)
        take("write_bytes_per_s", 1, ("torch fill_", lambda: c.fill_(1.0)), "write", c, count)
        if whole:
            triad = partial(torch.add, a, b, alpha=3.0, out=c)
            take(
                "stream_bytes_per_s.scale",
                2,
                ("torch mul", partial(torch.mul, a, 3.0, out=c)),
                "scale",
                c,
                a,
                3.0,
                count,
            )
            take("stream_bytes_per_s.add", 3, ("torch add", partial(torch.add, a, b, out=c)), "add", c, a, b, count)
            take("stream_bytes_per_s.triad", 3, ("torch add", triad), "triad", c, a, b, 3.0, count)

    def _take(self, page: Page, key: str, arrays: int, library: Form, loop: str, *arguments: object) -> None:
        def measure() -> Best:
            # The loop is compiled at its first run: without a compiler it fails, and torch's form counts alone.
            ours: Form = "C loop", lambda: _source.call(f"stream_{loop}", *arguments)
            took, name = quickest(wall, (library, ours), _BANDWIDTH_S)
            return Best(arrays * self._size / took, f"{name}, {_mib(self._size)}")

        page.take(key, f"memory, {key.removesuffix('_bytes_per_s').removeprefix('stream_bytes_per_s.')}", measure)


def _array_bytes() -> int:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = min(max(128 << 20, _BEYOND_CACHES * caches_bytes()), free // _LARGEST_SHARE)
    return max(size // _ALIGNED, 1) * _ALIGNED


def _float_products(dtype: torch.dtype, shape: Shape) -> Iterator[Form]:
    m, n, k = shape
    left, right, turned = (torch.randn(size).to(dtype) for size in ((m, k), (k, n), (n, k)))
    out = torch.empty(m, n, dtype=dtype)
    yield "torch.mm", lambda: torch.mm(left, right, out=out)
    yield "torch.mm", lambda: torch.mm(left, turned.t(), out=out)


def _int8_products(shape: Shape) -> Iterator[Form]:
    m, n, k = shape
    left, right, turned = (torch.randint(-127, 128, size, dtype=torch.int8) for size in ((m, k), (k, n), (n, k)))
    yield "torch._int_mm", lambda: torch._int_mm(left, right)
    yield "torch._int_mm", lambda: torch._int_mm(left, turned.t())


def _fma_rate(name: str) -> Best:
    loop = _compiled(name)
    done = float(loop(_FMA_ROUNDS))
    return Best(done / shortest(wall, lambda: loop(_FMA_ROUNDS), _BANDWIDTH_S), "C loop in registers")


def _cache_rate() -> Best:
    """Threads read an array of half the size of the caches repeatedly, each its part."""
    size = max(caches_bytes() // 2 // _ALIGNED, 1) * _ALIGNED
    a = torch.empty(size // 8, dtype=torch.float64).fill_(1.5)
    rounds = max(1, (1 << 29) // size)
    read = _compiled("stream_read")
    took = shortest(wall, lambda: read(a, size // 8, rounds), _BANDWIDTH_S)
    return Best(rounds * size / took, f"C loop, {_mib(size)}")


def fill_group(page: Page, group: str) -> None:
    """Measure the figures of a group of `ceiling_groups.GROUPS` into `page`."""
    keep_freed_memory()
    if group == "sectors":
        page.take("sectors_per_s", "random reads", _sector_rate)
    elif group == "steps":
        page.take("serial_step_s", "dependent reads", _serial_step)


def _sector_rate() -> Best:
    """Threads read 32 bytes each from random places of an array far beyond the caches."""
    size = _array_bytes()
    a, read = torch.empty(size // 8, dtype=torch.float64).fill_(1.5), _compiled("random_read")
    done = float(read(a, size // _LINE_BYTES, _RANDOM_ROUNDS))
    took = shortest(wall, lambda: read(a, size // _LINE_BYTES, _RANDOM_ROUNDS), _BANDWIDTH_S)
    return Best(done / took, f"C loop, of {_mib(size)}")


def _serial_step() -> Best:
    """One thread goes from place to place in a part of the caches."""
    places = _CHAIN_BYTES // _LINE_BYTES
    order = torch.randperm(places) * (_LINE_BYTES // 8)
    following = torch.zeros(places * (_LINE_BYTES // 8), dtype=torch.int64)
    following[order] = order.roll(-1)
    follow = _compiled("follow")
    took = shortest(wall, lambda: follow(following, _CHAIN_STEPS), _BANDWIDTH_S)
    return Best(took / _CHAIN_STEPS, f"C loop, chain of {places:,} reads")


def _compiled(name: str) -> Callable[..., Any]:
    try:
        return _source.function(name)
    except AiperfError as error:
        raise AiperfError(f"{error}; with one: aiperf ceilings --refresh") from None


def _fill_clocks(page: Page) -> None:
    page.take("timer_resolution_s", "timer", _resolution)
    for name in ("perf_counter", "process_time"):
        page.take(f"timer_call_s.{name}", f"cost of {name}", partial(_call_cost, getattr(time, name)))


def _resolution() -> Best:
    """The smallest observed step of the monotonic clock."""
    reads = [time.perf_counter_ns() for _ in range(20_000)]
    steps = [after - before for before, after in pairwise(reads) if after > before]
    return Best(min(steps) / 1e9, "smallest step seen")


def _call_cost(clock: Callable[[], float], calls: int = 20_000) -> Best:
    def many() -> None:
        for _ in range(calls):
            clock()

    return Best(shortest(wall, many, 0.02) / calls, f"{calls:,} calls")


def _mib(size: float) -> str:
    return f"{size / (1 << 20):.0f} MiB"
