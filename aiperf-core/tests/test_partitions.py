"""A GPU is split once, and its streams go before its contexts; a driver of notes takes the GPU's place."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core import partitions
from aiperf_core.errors import SkipError
from aiperf_core.partitions import split_multiprocessors


class Driver:
    """A GPU of 132 multiprocessors, split by eights."""

    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM=1)
    CUgreenCtxCreate_flags = SimpleNamespace(CU_GREEN_CTX_DEFAULT_STREAM=SimpleNamespace(value=1))
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=SimpleNamespace(value=1))

    def __init__(self) -> None:
        self.notes: list[str] = []

    def cuDeviceGetDevResource(self, device: int, kind: int) -> Any:  # noqa: N802
        return 0, part(132)

    def cuDevSmResourceSplitByCount(self, groups: int, whole: Any, flags: int, least: int) -> Any:  # noqa: N802
        taken = min(-(-least // 8) * 8, whole.sm.smCount)
        return 0, [part(taken)], 1, part(whole.sm.smCount - taken)

    def cuDevResourceGenerateDesc(self, resources: list[Any], count: int) -> Any:  # noqa: N802
        return 0, resources[0].sm.smCount

    def cuGreenCtxCreate(self, described: int, device: int, flags: int) -> Any:  # noqa: N802
        return 0, described

    def cuGreenCtxStreamCreate(self, context: int, flags: int, priority: int) -> Any:  # noqa: N802
        self.notes.append(f"stream of {context} at {priority}")
        return 0, 1000 + context

    def cuStreamDestroy(self, stream: int) -> Any:  # noqa: N802
        self.notes.append(f"end of stream {stream}")
        return (0,)

    def cuGreenCtxDestroy(self, context: int) -> Any:  # noqa: N802
        self.notes.append(f"end of {context}")
        return (0,)


def part(count: int) -> Any:
    return SimpleNamespace(sm=SimpleNamespace(smCount=count))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    def make(driver: Any) -> Any:
        monkeypatch.setattr(partitions, "cuda_driver", lambda: driver)
        for name in ("current_device", "current_stream"):
            monkeypatch.setattr(torch.cuda, name, lambda: 0)
        monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle: SimpleNamespace(cuda_stream=handle))
        return driver

    return make


def test_a_partition_lives_as_long_as_its_stream(use: Callable[[Any], Driver]) -> None:
    driver = use(Driver())
    few, rest = split_multiprocessors(10)
    assert (few.count, rest.count) == (16, 116)
    stream = few.stream(-1)
    del few
    assert (stream.cuda_stream, driver.notes) == (1016, ["stream of 16 at -1"])
    del stream
    assert driver.notes[1:] == ["end of stream 1016", "end of 16"]


def test_what_cannot_be_split_is_skipped(use: Callable[[Any], Driver]) -> None:
    use(Driver())
    with pytest.raises(SkipError, match=r"^needs more than 130 multiprocessors; this GPU has 132$"):
        split_multiprocessors(130)
    use(SimpleNamespace())
    with pytest.raises(SkipError, match=r"^needs green contexts, which cuda-bindings have since"):
        split_multiprocessors(8)


@pytest.mark.gpu
def test_on_a_gpu_the_parts_are_the_whole() -> None:
    few, rest = split_multiprocessors(16)
    assert few.count >= 16
    assert few.count + rest.count == torch.cuda.get_device_properties(0).multi_processor_count
    with torch.cuda.stream(few.stream()):
        assert torch.arange(1000, device="cuda").sum().item() == 499500
