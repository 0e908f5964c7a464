"""What decides how a GPU is measured, without one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core.devices import cuda_ceilings
from aiperf_core.devices.cuda_ceilings import _Gpu
from aiperf_core.devices.timing import Timed
from aiperf_core.errors import AiperfError

GIB, MIB = 1 << 30, 1 << 20


class FakeDevice:
    """Says how long each call takes, in order."""

    def __init__(self, seconds: list[float], hidden: bool = True) -> None:
        self.seconds, self.hidden = seconds, hidden

    def time(self, call: Any, clock: str) -> Timed:
        assert clock == "device"
        call()
        took = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        return Timed(None, took, None, 0.0, self.hidden, 0, 0)

    def empty(self) -> None:
        """Nothing, as the kernel does."""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A GPU of 132 SMs with 60 MiB of L2, and 100 GiB free."""
    one = _Gpu.__new__(_Gpu)
    one._about, one._sms = SimpleNamespace(L2_cache_size=60 * MIB), 132
    one._device = FakeDevice([1e-3])  # type: ignore[assignment]
    monkeypatch.setattr(_Gpu, "_short_copy", lambda _: lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100 * GIB, 141 * GIB))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    return one


def test_arrays_are_as_large_as_there_is_room(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu._array_sizes() == [GIB, 4 * GIB]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4 * GIB, 8 * GIB))
    assert gpu._array_sizes() == [GIB]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2 * GIB, 8 * GIB))
    assert gpu._array_sizes() == [GIB // 2]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (600 * MIB, 8 * GIB))
    with pytest.raises(AiperfError, match=r"^too little memory is free: 600 MiB, and arrays take 240 MiB each$"):
        gpu._array_sizes()


def test_grids_cover_arrays(gpu: Any) -> None:
    for size in (GIB, 4 * GIB, GIB // 2):
        assert gpu._grids(size) == (16 * 132, size // 16 // 1024)
        assert size % (16 * 1024) == 0, "kernels have no bounds checks"


def test_bandwidth_counts_every_array(gpu: Any) -> None:
    found = gpu._bandwidth(2, lambda size: iter([("a way", lambda: None)]))
    assert found == (2 * 4 * GIB / 1e-3, "a way, 4 GiB")


def test_where_memory_ends_the_smaller_arrays_count(gpu: Any) -> None:
    def forms(size: int) -> Any:
        if size > GIB:
            raise torch.OutOfMemoryError
        yield "a way", lambda: None

    assert gpu._bandwidth(1, forms) == (GIB / 1e-3, "a way, 1 GiB")
    with pytest.raises(torch.OutOfMemoryError):
        gpu._bandwidth(1, lambda size: forms(4 * GIB))


def test_events_are_held_against_cupti(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_ceilings.ledger, "audit", lambda *_, **__: {"span_s": [0.6e-6, 0.64e-6, 0.7e-6]})
    gpu._device = FakeDevice([2.69e-6])
    assert gpu.event_overhead().value == pytest.approx(2.05e-6)
    gpu._device = FakeDevice([0.5e-6])
    assert gpu.event_overhead().value == 0.0


def test_the_step_of_events_is_the_least_difference(gpu: Any) -> None:
    gpu._device = FakeDevice([2.048e-6, 2.112e-6, 2.08e-6, 2.0800001e-6, 2.048e-6])
    assert gpu.event_step().value == pytest.approx(32e-9, rel=1e-2)
    gpu._device = FakeDevice([2e-6])
    assert gpu.event_step().value == 0.0


def test_events_that_were_not_hidden_calibrate_nothing(gpu: Any) -> None:
    gpu._device = FakeDevice([9e-6], hidden=False)
    with pytest.raises(AiperfError, match="the launch of a kernel could not be hidden"):
        gpu.event_overhead()


def test_fp8_needs_its_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    with pytest.raises(AiperfError, match=r"^needs sm_89 \(this GPU is sm_80\)$"):
        next(cuda_ceilings._fp8_products((1024, 1024, 1024)))
