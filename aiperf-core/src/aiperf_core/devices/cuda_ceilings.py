"""The ceilings of a GPU, from library calls and own kernels. Links to it: `devices.links`."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import torch

from aiperf_core.devices import ledger, links, nvml
from aiperf_core.devices.cuda import CudaDevice
from aiperf_core.devices.measuring import Best, Call, Form, Page, Shape, product_rate, quickest, shortest, wall
from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.kernels import cuda_source

_source = cuda_source("ceilings.cu")

# The first shape is a probe: a precision with little hardware support stops there.
SHAPES: tuple[Shape, ...] = ((1024, 1024, 1024), (4096, 4096, 4096), (8192, 4096, 8192), (8192, 8192, 8192))
PRODUCTS = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
_ARRAY_BYTES = (1 << 30, 4 << 30)
_LEAST_L2S = 4
_BLOCK = 256
_TILE = 4 * _BLOCK  # float4 values that a block moves in one step
_FMA_BLOCK, _FMA_PER_ROUND = 512, 64
_SHARED_BLOCK, _SHARED_BYTES_PER_ROUND = 1024, 8 * 16
_SPECIAL_PER_ROUND, _READS_PER_THREAD, _LINE_BYTES = 16, 64, 128
_CALIBRATIONS, _LAUNCHES = 20, 1000
_SHORT_BYTES = 1 << 20
# Event times are single-precision milliseconds; smaller differences are rounding.
_STEPS, _ROUNDING_S = 100, 1e-9
# Budgets of one form, in seconds.
_BANDWIDTH_S = 0.02
_PRODUCT_S = 0.12


def fill(page: Page) -> str:
    """Measure the basic figures into `page`; return the device's name. Raises `SkipError` when it cannot be timed."""
    gpu = _Gpu()
    # Bandwidth first: matrix products heat the chip.
    gpu.fill_bandwidths(page)
    gpu.fill_arithmetic(page)
    page.take("cache_bytes", "the size of L2", gpu.cache_size)
    page.take("event_overhead_s", "what events cost", gpu.event_overhead)
    page.take("event_step_s", "the step of events", gpu.event_step)
    return torch.cuda.get_device_name()


def fill_group(page: Page, group: str) -> None:
    """Measure the figures of a group of `ceiling_groups.GROUPS` into `page`."""
    if group == "wire":
        links.fill_peers(page)
    elif group == "transfers":
        links.fill_transfers(page)
    else:
        gpu = _Gpu()
        figures: dict[str, tuple[tuple[str, str, Callable[[], Best]], ...]] = {
            "on_chip": (
                ("cache_bytes_per_s", "L2", gpu.cache_rate),
                ("shared_bytes_per_s", "shared memory", gpu.shared_rate),
            ),
            "launches": (
                ("launch_s", "launches", gpu.launch),
                ("launch_wait_s", "launch and wait", gpu.launch_and_wait),
                ("graph_launch_s", "launches in a graph", gpu.launch_in_graph),
            ),
            "sectors": (("sectors_per_s", "random reads", gpu.sector_rate),),
            "special": (("special_functions_per_s", "special functions", gpu.special_rate),),
            "steps": (("serial_step_s", "dependent reads", gpu.serial_step),),
        }
        for figure in figures.get(group, ()):
            page.take(*figure)


class _Gpu:
    """The current device and the measurements of its ceilings."""

    def __init__(self) -> None:
        self._device = CudaDevice()
        self._about = torch.cuda.get_device_properties()
        self._sms: int = self._about.multi_processor_count

    def watch(self, call: Call) -> float:
        """The device time of a call with its launch hidden, in seconds."""
        took = self._device.time(call, "device").device_s
        assert took is not None
        return took

    # --- memory

    def fill_bandwidths(self, page: Page) -> None:
        """Copy, read and write; large arrays only when memory is free for them."""
        page.take("copy_bytes_per_s", "memory, copy", partial(self._bandwidth, 2, self._copies))
        page.take("read_bytes_per_s", "memory, read", partial(self._bandwidth, 1, self._reads))
        page.take("write_bytes_per_s", "memory, write", partial(self._bandwidth, 1, self._writes))

    def _bandwidth(self, arrays: int, forms_of: Callable[[int], Iterator[Form]]) -> Best:
        best = Best(0.0, "")
        for size in self._array_sizes():
            try:
                took, name = quickest(self.watch, forms_of(size), _BANDWIDTH_S)
            except torch.OutOfMemoryError:  # another process took the memory
                if best.value:
                    break
                raise
            best = max(best, Best(arrays * size / took, f"{name}, {_binary(size)}"))
            torch.cuda.empty_cache()
        return best

    def _array_sizes(self) -> list[int]:
        free, _ = torch.cuda.mem_get_info()
        fitting = [size for size in _ARRAY_BYTES if 3 * size <= free]
        if fitting:
            return fitting
        least = _LEAST_L2S * self._about.L2_cache_size
        size = max(free // 4, 1) // (16 * _TILE) * (16 * _TILE)
        if size < least:
            raise AiperfError(f"too little memory is free: {_binary(free)}, and arrays take {_binary(least)} each")
        return [size]

    def _copies(self, size: int) -> Iterator[Form]:
        source, target = _random(size), torch.empty(size // 4, device="cuda")
        yield "torch copy_", lambda: target.copy_(source)
        yield "torch mul", lambda: torch.mul(source, 2.0, out=target)
        copy = _source.kernel("copy4")
        for grid in self._grids(size):
            yield "float4 kernel", partial(copy, source, target, size // 16, grid=grid, block=_BLOCK)

    def _reads(self, size: int) -> Iterator[Form]:
        source = _random(size)
        out = torch.empty(1, device="cuda")
        yield "torch sum", source.sum
        yield "torch max", source.view(torch.int32).max
        read = _source.kernel("read4")
        for grid in self._grids(size):
            yield "float4 kernel", partial(read, source, out, size // 16, 1, grid=grid, block=_BLOCK)

    def _writes(self, size: int) -> Iterator[Form]:
        target = torch.empty(size // 4, device="cuda")
        yield "torch fill_", lambda: target.fill_(1.5)
        yield "torch zero_", target.zero_
        write = _source.kernel("write4")
        for grid in self._grids(size):
            yield "float4 kernel", partial(write, target, size // 16, grid=grid, block=_BLOCK)

    def _grids(self, size: int) -> tuple[int, int]:
        """Persistent blocks that loop over the array, or one block a tile."""
        return 16 * self._sms, size // 16 // _TILE

    def cache_size(self) -> Best:
        """The size of L2 in bytes, from the driver."""
        return Best(float(self._about.L2_cache_size), "from the driver")

    def cache_rate(self) -> Best:
        """The rate of repeated reads of a quarter of L2, past L1."""
        size = self._about.L2_cache_size // 4 // (16 * _TILE) * (16 * _TILE)
        source, out, rounds = _random(size), torch.empty(1, device="cuda"), max(1, (1 << 30) // size)
        read = _source.kernel("read4")
        forms = [
            (f"{_binary(size)}, past L1", partial(read, source, out, size // 16, rounds, grid=grid, block=_BLOCK))
            for grid in (min(8 * self._sms, size // 16 // _TILE), 2 * self._sms)
        ]
        took, name = quickest(self.watch, forms, _BANDWIDTH_S)
        return Best(rounds * size / took, name)

    def shared_rate(self) -> Best:
        """The rate at which all SMs read shared memory without bank conflicts."""
        out, rounds, grid = torch.empty(1, device="cuda"), 4096, 2 * self._sms
        call = partial(_source.kernel("shared_read"), out, rounds, grid=grid, block=_SHARED_BLOCK)
        moved = float(grid * _SHARED_BLOCK * rounds * _SHARED_BYTES_PER_ROUND)
        return Best(moved / shortest(self.watch, call, _BANDWIDTH_S), "float4 loads, all SMs")

    def sector_rate(self) -> Best:
        """The rate at which threads read 32 bytes each from random places of an array far beyond L2."""
        size = self._array_sizes()[-1]
        source, out, grid = _random(size), torch.empty(1, device="cuda"), 64 * self._sms
        call = partial(_source.kernel("random_read"), source, out, size // 32, grid=grid, block=_BLOCK)
        moved = float(grid * _BLOCK * _READS_PER_THREAD)
        return Best(moved / shortest(self.watch, call, _BANDWIDTH_S), f"of {_binary(size)}, 32 bytes each")

    def serial_step(self) -> Best:
        """The time of a read that the next one waits for, in a part of L2 that is larger than L1."""
        places = self._about.L2_cache_size // 8 // _LINE_BYTES
        order = torch.randperm(places, device="cuda", dtype=torch.int64)
        following = torch.empty(places * (_LINE_BYTES // 4), dtype=torch.int32, device="cuda")
        following[order * (_LINE_BYTES // 4)] = (order.roll(-1) * (_LINE_BYTES // 4)).int()
        out = torch.empty(1, dtype=torch.int32, device="cuda")
        call = partial(_source.kernel("follow"), following, out, places, grid=1, block=1)
        return Best(shortest(self.watch, call, _BANDWIDTH_S) / places, f"chain of {places:,} reads past L1")

    # --- arithmetic

    def fill_arithmetic(self, page: Page) -> None:
        """Matrix products by precision, then multiply-adds in registers."""
        for name, dtype in PRODUCTS.items():
            forms = partial(_float_products, name, dtype)
            self._take_product(page, name, forms)
        self._take_product(page, "fp8", _fp8_products)
        self._take_product(page, "int8", _int8_products)
        torch.cuda.empty_cache()
        page.take("vector_flop_per_s.fp32", "fp32 multiply-add", partial(self._fma_rate, "fma32", torch.float32))
        page.take("vector_flop_per_s.fp64", "fp64 multiply-add", partial(self._fma_rate, "fma64", torch.float64))
        for bits, dtype in ((32, torch.float32), (64, torch.float64)):
            label = f"fp{bits} multiply-add of three registers"
            key = f"multiply_add_flop_per_s.fp{bits}"
            page.take(key, label, partial(self._fma_rate, f"fma{bits}_registers", dtype))
        page.take("sm_clock_hz", "SM clock", self._clock_under_load)

    def _take_product(self, page: Page, name: str, forms: Callable[[Shape], Iterator[Form]]) -> None:
        label = f"{name} matmul"
        page.take(f"flop_per_s.{name}", label, partial(product_rate, self.watch, forms, SHAPES, _PRODUCT_S))

    def _fma_rate(self, name: str, dtype: torch.dtype) -> Best:
        kernel, out, grid = _source.kernel(name), torch.empty(1, dtype=dtype, device="cuda"), 16 * self._sms
        rounds = 64
        call = partial(kernel, out, rounds, 0.999, 0.001, grid=grid, block=_FMA_BLOCK)
        # Some GPUs have 1/64 of the multiply-add rate in fp64: choose rounds that take two milliseconds.
        rounds = max(rounds, min(1 << 16, round(rounds * 2e-3 / shortest(self.watch, call, 0.0))))
        call = partial(kernel, out, rounds, 0.999, 0.001, grid=grid, block=_FMA_BLOCK)
        work = 2.0 * _FMA_PER_ROUND * rounds * grid * _FMA_BLOCK
        return Best(work / shortest(self.watch, call, _BANDWIDTH_S), "kernel in registers")

    def special_rate(self) -> Best:
        """The rate of exponentials in registers, on all SMs."""
        out, rounds, grid = torch.empty(1, device="cuda"), 4096, 16 * self._sms
        call = partial(_source.kernel("exponentials"), out, rounds, grid=grid, block=_FMA_BLOCK)
        work = float(grid * _FMA_BLOCK * rounds * _SPECIAL_PER_ROUND)
        return Best(work / shortest(self.watch, call, _BANDWIDTH_S), "ex2.approx in registers")

    def _clock_under_load(self) -> Best:
        """The SM clock during matrix products, from NVML."""
        a = torch.randn(8192, 8192, device="cuda").bfloat16()
        out = torch.empty_like(a)
        with nvml.session() as board:
            handle = board.ask("nvmlDeviceGetHandleByUUID", f"GPU-{self._about.uuid}")
            for _ in range(40):
                torch.mm(a, a, out=out)
            time.sleep(0.02)
            clock = None if handle is None else board.ask("nvmlDeviceGetClockInfo", handle, board.module.NVML_CLOCK_SM)
            torch.cuda.synchronize()
        if clock is None:
            raise AiperfError("NVML does not tell the clock of this GPU")
        return Best(clock * 1e6, "NVML, during bf16 products")

    # --- launches and clocks

    def event_overhead(self) -> Best:
        """The time of a short copy by events beyond its time by CUPTI.

        An event sees the end of a kernel that writes half a microsecond later than that of an empty kernel.
        """
        call = self._short_copy()
        call()
        timed = [self._device.time(call, "device") for _ in range(_CALIBRATIONS)]
        by_events = [each.device_s for each in timed if each.hidden and each.device_s is not None]
        if len(by_events) < _CALIBRATIONS // 2:
            raise AiperfError("the launch of a kernel could not be hidden")
        by_cupti = ledger.audit(self._device, call, _CALIBRATIONS, flush=False)["span_s"]
        excess = statistics.median(by_events) - statistics.median(by_cupti)
        return Best(max(0.0, excess), "copy of 1 MiB, beyond CUPTI")

    def _short_copy(self) -> Call:
        source, target = _random(_SHORT_BYTES), torch.empty(_SHORT_BYTES // 4, device="cuda")
        grid = _SHORT_BYTES // 16 // _TILE
        return partial(_source.kernel("copy4"), source, target, _SHORT_BYTES // 16, grid=grid, block=_BLOCK)

    def event_step(self) -> Best:
        """The smallest difference between the times of empty kernels."""
        timed = [self._device.time(self._device.empty, "device").device_s or 0.0 for _ in range(_STEPS)]
        ordered = sorted(set(timed))
        steps = [after - before for before, after in pairwise(ordered) if after - before > _ROUNDING_S]
        return Best(min(steps, default=0.0), f"between {_STEPS} empty kernels")

    def launch(self) -> Best:
        """The time from an empty kernel to the next, queued from Python."""

        def many() -> None:
            for _ in range(_LAUNCHES):
                self._device.empty()
            torch.cuda.synchronize()

        return Best(shortest(wall, many, 0.05) / _LAUNCHES, f"{_LAUNCHES:,} from Python")

    def launch_and_wait(self) -> Best:
        """The time to queue an empty kernel and wait for it."""

        def launch_once() -> None:
            self._device.empty()
            torch.cuda.synchronize()

        launch_once()
        return Best(statistics.median(wall(launch_once) for _ in range(200)), "median of 200")

    def launch_in_graph(self) -> Best:
        """The time from an empty kernel to the next within a CUDA graph."""
        self._device.empty()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(_LAUNCHES):
                self._device.empty()
        return Best(shortest(self.watch, graph.replay, 0.02) / _LAUNCHES, f"{_LAUNCHES:,} in a CUDA graph")


def _float_products(name: str, dtype: torch.dtype, shape: Shape) -> Iterator[Form]:
    m, n, k = shape
    # Random values: products of zeros take less power, which raises the clocks.
    left, right, turned = (torch.randn(size, device="cuda").to(dtype) for size in ((m, k), (k, n), (n, k)))
    out = torch.empty(m, n, dtype=dtype, device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        yield "torch.mm", lambda: torch.mm(left, right, out=out)
        yield "torch.mm, B turned", lambda: torch.mm(left, turned.t(), out=out)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def _fp8_products(shape: Shape) -> Iterator[Form]:
    capability = torch.cuda.get_device_capability()
    if capability < (8, 9):
        raise SkipError(f"needs sm_89 (this GPU is sm_{capability[0]}{capability[1]})")
    m, n, k = shape
    left, turned = (torch.randn(size, device="cuda").to(torch.float8_e4m3fn) for size in ((m, k), (n, k)))
    one = torch.ones((), device="cuda")
    for fast in (True, False):
        yield (
            f"_scaled_mm{', fast sums' if fast else ''}",
            lambda fast=fast: torch._scaled_mm(  # type: ignore[misc]
                left, turned.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
            ),
        )


def _int8_products(shape: Shape) -> Iterator[Form]:
    m, n, k = shape
    sizes = ((m, k), (k, n), (n, k))
    left, right, turned = (torch.randint(-127, 128, size, dtype=torch.int8, device="cuda") for size in sizes)
    yield "_int_mm, B turned", lambda: torch._int_mm(left, turned.t())
    yield "_int_mm", lambda: torch._int_mm(left, right)


def _random(size: int) -> torch.Tensor:
    return torch.randn(size // 4, device="cuda")


def _binary(size: float) -> str:
    return f"{size / (1 << 30):.3g} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.3g} MiB"
