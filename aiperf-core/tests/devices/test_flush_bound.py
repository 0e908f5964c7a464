"""How much a flush must write, found on caches that are made up, and on this machine."""

from collections.abc import Callable

import pytest

from aiperf_core.devices import cpu
from aiperf_core.devices.cpu import CpuDevice
from aiperf_core.devices.cpu_kind import CpuKind
from aiperf_core.devices.flush_bound import Canary, FlushBound, find

MIB = 1 << 20
NEAR_S, FAR_S = 10e-6, 50e-6


def a_cache(size_bytes: int, *, sometimes: int = 0) -> Callable[[int], float]:
    """Reads where a process has `size_bytes` of the last-level cache.

    sometimes: the period of reads that are near although they were displaced; 0 for none.
    """
    reads = 0

    def read_after(written: int) -> float:
        nonlocal reads
        reads += 1
        kept = sometimes and written < 256 * MIB and reads % sometimes == 0
        return NEAR_S if written < size_bytes or kept else FAR_S

    return read_after


@pytest.mark.parametrize(("share", "written"), [(20, 64), (32, 64), (33, 128), (200, 512), (256, 512), (257, 960)])
def test_twice_the_smallest_size_that_displaces_is_written(share: int, written: int) -> None:
    found = find(a_cache(share * MIB), 8 * MIB, 960 * MIB)
    assert (found.size_bytes, found.whole_bytes) == (written * MIB, 960 * MIB)
    assert found.size_bytes >= min(2 * share, 960) * MIB * 0.99
    told = "a read takes 10 us from the last-level cache and 50 us displaced; "
    if written < 960:
        assert found.displaced_s == pytest.approx(30e-6)
        assert found.reason == f"{told}all of 15 reads were displaced after {written // 2} MiB"
    else:
        assert found.displaced_s == 0.0
        assert found.reason == f"{told}after 256 MiB reads were not always displaced"


def test_a_size_that_displaces_most_of_the_time_does_not_count() -> None:
    found = find(a_cache(20 * MIB, sometimes=10), 8 * MIB, 960 * MIB)
    assert found.size_bytes == 512 * MIB


def test_reads_that_are_alike_show_nothing() -> None:
    found = find(lambda written: 10e-6 if written < 32 * MIB else 19e-6, 8 * MIB, 960 * MIB)
    assert found == FlushBound(
        960 * MIB,
        960 * MIB,
        0.0,
        "a read takes 10 us from the last-level cache and 19 us displaced, which are too alike to tell apart",
    )


def test_cores_with_large_caches_of_their_own_leave_nothing_to_find() -> None:
    found = find(a_cache(MIB), 64 * MIB, 64 * MIB)
    assert found.reason == "the cores' own caches are as large as the last-level cache"
    assert found.size_bytes == 64 * MIB


def test_several_last_level_caches_are_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: MIB)
    monkeypatch.setattr(cpu, "caches_bytes", lambda: 2 * MIB)
    reason = "the processors have several last-level caches, and a read shows only one"
    assert CpuKind().bound_flush() == FlushBound(2 * MIB, 2 * MIB, 0.0, reason)


def test_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 64 * MIB)
    monkeypatch.setattr(cpu, "caches_bytes", lambda: 64 * MIB)
    found = CpuKind().bound_flush()
    assert found.whole_bytes == 128 * MIB
    assert (found.size_bytes < found.whole_bytes) == (found.displaced_s > 0)
    assert found.reason


class Reads:
    """A canary with given times."""

    def __init__(self, *times_s: float) -> None:
        self.times_s, self.read_before = [*times_s], 0

    def read(self) -> None:
        self.read_before += 1

    def read_s(self) -> float:
        return self.times_s.pop(0)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """A processor that is told of 16 MiB, of which 4 MiB have to be written."""
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 16 * MIB)
    return CpuDevice(1, FlushBound(4 * MIB, 32 * MIB, 30e-6, "measured"))


def written(device: CpuDevice) -> int:
    """The size of the part that a flush writes."""
    assert device._flush is not None
    device._flush.fill_(3)
    device.flush()
    return int((device._flush == 0).sum())


def test_a_flush_that_displaces_writes_no_more(device: CpuDevice) -> None:
    canary = device._canary = Reads(50e-6, 31e-6)  # type: ignore[assignment]
    assert [written(device) for _ in range(2)] == [4 * MIB, 4 * MIB]
    assert canary is not None
    assert canary.read_before == 2


def test_a_flush_that_does_not_displace_writes_more_from_then_on(device: CpuDevice) -> None:
    device._canary = Reads(29e-6, 50e-6, 50e-6, 20e-6, 20e-6)  # type: ignore[assignment]
    assert [written(device) for _ in range(4)] == [8 * MIB, 8 * MIB, 32 * MIB, 32 * MIB]


def test_what_was_measured_for_another_cache_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 16 * MIB)
    for bound in (None, FlushBound(4 * MIB, 64 * MIB, 30e-6, "measured"), FlushBound(32 * MIB, 32 * MIB, 0.0, "no")):
        assert written(CpuDevice(1, bound)) == 32 * MIB


def test_a_kind_passes_its_bound_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 16 * MIB)
    kind = CpuKind()
    kind.flush_bound = FlushBound(4 * MIB, 32 * MIB, 30e-6, "measured")
    assert kind.open(1, all_streams=True)._written == 4 * MIB  # type: ignore[attr-defined]
    assert CpuKind.flush_bound is None


@pytest.mark.quiet
def test_a_canary_is_slower_when_it_was_displaced() -> None:
    canary = Canary()
    hot, cold = [], []
    for _ in range(20):
        canary.read()
        hot.append(canary.read_s())
        bytes(bytearray(64 * MIB))
        cold.append(canary.read_s())
    assert min(hot) < min(cold)
