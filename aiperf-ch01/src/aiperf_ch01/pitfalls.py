"""One matrix product, timed in ways that are often taken for the same."""

import statistics
import time
from collections.abc import Callable

import torch
from attrs import field, frozen

from aiperf_core.devices.cpu import last_level_cache_bytes
from aiperf_core.devices.probe import has_cuda_device
from aiperf_core.errors import UsageError

Call = Callable[[], object]


@frozen
class Way:
    """One way to time a call, and its samples in seconds."""

    name: str
    what: str
    samples_s: list[float]

    @property
    def median_s(self) -> float:
        """The median."""
        return statistics.median(self.samples_s)

    @property
    def mean_s(self) -> float:
        """The mean, which a few slow samples move."""
        return statistics.fmean(self.samples_s)

    @property
    def spread(self) -> float:
        """The distance of the quartiles, as a part of the median; 0 for a single sample."""
        if len(self.samples_s) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples_s, n=4)
        return (high - low) / self.median_s


@frozen
class Pitfalls:
    """All ways on one device, for square matrices of so many rows."""

    device: str
    dtype: str
    rows: int
    ways: list[Way] = field(factory=list)

    @property
    def reference_s(self) -> float:
        """The median with a cold cache, random values and waiting: the question that is mostly meant."""
        return next(one.median_s for one in self.ways if one.name == "cold")


def measure(device: str | None, samples: int, rows: int | None = None) -> Pitfalls:
    """Time a product on `cpu` or `cuda` (the GPU, if there is one). Raises `UsageError` where there is no GPU."""
    name = device or ("cuda" if has_cuda_device() else "cpu")
    if name == "cuda" and not has_cuda_device():
        raise UsageError("'cuda' was requested, but this machine has no CUDA GPU. Measure the processor: --device cpu")
    on_gpu = name == "cuda"
    rows = rows or (2048 if on_gpu else 512)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    clock = _Clock(on_gpu)
    a, b = (torch.randn(rows, rows, device=name).to(dtype) for _ in range(2))
    out, zeros = torch.empty_like(a), torch.zeros_like(a)

    def product() -> object:
        return torch.mm(a, b, out=out)

    def of_zeros() -> object:
        return torch.mm(zeros, zeros, out=out)

    first = Way(
        "first call", "the first product in this process: libraries are loaded and chosen", clock.waited(product, 1)
    )
    for _ in range(3):
        product()
    ways = [
        first,
        Way("cold", "caches displaced before each call, random values, waited for", clock.cold(product, samples)),
        Way("warm", "the same call over and over, whose inputs stay in the cache", clock.waited(product, samples)),
        Way("warm, zeros", "the same on zeros, which take less power", clock.waited(of_zeros, samples)),
        Way("in a row", "all calls without a pause, divided by their number", clock.in_a_row(product, samples)),
    ]
    if on_gpu:
        ways += [
            Way(
                "unsynchronised", "until the call returns, which only queues it", clock.unsynchronised(product, samples)
            ),
            Way(
                "events, idle",
                "GPU events around a call on an idle GPU, launch included",
                clock.events(product, samples),
            ),
        ]
    return Pitfalls(torch.cuda.get_device_name() if on_gpu else "cpu", str(dtype).removeprefix("torch."), rows, ways)


class _Clock:
    """Times calls by the monotonic clock of the host, or by events of a GPU."""

    def __init__(self, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        cache = torch.cuda.get_device_properties().L2_cache_size if on_gpu else last_level_cache_bytes()
        self._displacing = torch.zeros(2 * cache, dtype=torch.uint8, device="cuda" if on_gpu else "cpu")

    def waited(self, call: Call, samples: int) -> list[float]:
        return [self._one(call) for _ in range(samples)]

    def cold(self, call: Call, samples: int) -> list[float]:
        times = []
        for _ in range(samples):
            self._displacing.add_(1)
            times.append(self._one(call))
        return times

    def in_a_row(self, call: Call, samples: int) -> list[float]:
        def calls() -> None:
            for _ in range(samples):
                call()

        return [self._one(calls) / samples for _ in range(3)]

    def unsynchronised(self, call: Call, samples: int) -> list[float]:
        times = []
        for _ in range(samples):
            self._wait()
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return times

    def events(self, call: Call, samples: int) -> list[float]:
        times = []
        for _ in range(samples):
            self._wait()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            self._wait()
            times.append(start.elapsed_time(end) / 1e3)
        return times

    def _one(self, call: Call) -> float:
        self._wait()
        start = time.perf_counter()
        call()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()
