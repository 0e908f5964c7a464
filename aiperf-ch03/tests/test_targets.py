"""Page faults are counted, memory goes back, and a missing kernel feature is a reason to skip. `pytest --aiperf` tests the rest."""

import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
import torch

from aiperf_ch03 import first_touch, ipc_transport, launch_jitter, numa_locality, pages, pinned_cost
from aiperf_ch03.pages import refuse_without_huge_pages
from aiperf_ch03.thread_oversubscription import EveryCore, SharedCores
from aiperf_core.errors import SkipError
from aiperf_core.testing import Measure

PAGE_WORDS = 512


def test_page_faults_are_counted(aiperf_measure: Measure) -> None:
    rows = aiperf_measure("ch03.first_touch", n=8192 * PAGE_WORDS).rows
    faults = {row.name: row.beside["minor_faults"] for row in rows if row.beside}
    # The kernel counts pages, not traps: pages that are mapped ahead are as many.
    assert faults["on_demand"] >= 8192
    assert faults["populated"] >= 8192
    # 16 of 2 MiB, and small ones at the ends.
    assert faults.get("huge_pages", 0) < 1024
    assert faults["pooled"] < 50


def test_a_mapping_goes_back_with_its_tensor() -> None:
    mapped = Path("/proc/self/maps")
    before = len(mapped.read_text().splitlines())
    for _ in range(50):
        first_touch.words(first_touch.mapped(PAGE_WORDS)).zero_()
    assert len(mapped.read_text().splitlines()) < before + 25


def test_huge_pages_are_skipped_with_what_the_kernel_says(tmp_path: Path) -> None:
    setting = tmp_path / "enabled"
    with pytest.raises(SkipError) as caught:
        refuse_without_huge_pages(setting)
    assert str(caught.value) == f"needs transparent huge pages; this kernel has none ({setting} cannot be read)"
    setting.write_text("always madvise [never]\n")
    with pytest.raises(SkipError) as caught:
        refuse_without_huge_pages(setting)
    assert str(caught.value) == (
        f"needs transparent huge pages; {setting} says 'always madvise [never]', accepted are [madvise] and [always]"
    )
    for said in ("[always] madvise never\n", "always [madvise] never\n"):
        setting.write_text(said)
        refuse_without_huge_pages(setting)


def test_huge_bytes_are_the_kernel_s_count_of_the_mapping(tmp_path: Path) -> None:
    with mmap.mmap(-1, 4 * pages.HUGE_BYTES) as mapping:
        start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        end = start + len(mapping)
        smaps = tmp_path / "smaps"
        entries = [(start - 8192, start, 2048), (start, end, 6144), (end, end + 4096, 4096)]
        smaps.write_text(
            "".join(f"{low:x}-{high:x} rw-p 0 0\nSize: 1 kB\nAnonHugePages: {huge} kB\n" for low, high, huge in entries)
        )
        assert pages.huge_bytes(mapping, smaps) == 6 << 20
        pages.refuse_small_pages(mapping, smaps)
        smaps.write_text(f"{start:x}-{end:x} rw-p 0 0\nAnonHugePages: 2048 kB\n")
        with pytest.raises(SkipError, match="the kernel gave 2 MiB of 8 MiB in them"):
            pages.refuse_small_pages(mapping, smaps)


def test_a_mapping_in_huge_pages_is_counted_here() -> None:
    refuse_without_huge_pages()
    mapping = first_touch.mapped(pages.HUGE_BYTES)  # words, of 8 bytes
    mapping.madvise(mmap.MADV_HUGEPAGE)
    mapping.write(b"x" * len(mapping))
    assert pages.huge_bytes(mapping) >= pages.HUGE_BYTES
    plain = first_touch.mapped(pages.HUGE_BYTES)
    plain.madvise(mmap.MADV_NOHUGEPAGE)
    plain.write(b"x" * len(plain))
    with pytest.raises(SkipError, match="the kernel gave 0 MiB of 16 MiB in them"):
        pages.refuse_small_pages(plain)


def test_too_few_reserved_pages_are_said() -> None:
    with pytest.raises(
        SkipError, match=r"needs 524288 reserved huge pages \(Cannot allocate memory\); .*nr_hugepages=524288"
    ):
        pages.reserved(1 << 40)


@pytest.mark.parametrize(("cores", "processes", "threads"), [(2, 2, 1), (2, 4, 1), (8, 2, 4), (8, 3, 2)])
def test_processes_share_the_cores_that_they_may_use(monkeypatch, cores: int, processes: int, threads: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert EveryCore().threads(processes) == cores
    assert SharedCores().threads(processes) == threads


@pytest.mark.parametrize("polled", [False, True], ids=["sleeping", "polling"])
@pytest.mark.parametrize(("n", "piece", "slots"), [(5, 5, 1), (23, 4, 3), (8, 4, 2), (1, 4, 3)])
def test_a_channel_carries_messages_call_after_call(n: int, piece: int, slots: int, polled: bool) -> None:
    code, messages = ipc_transport.host_code, 4
    channel = torch.zeros(code.call("channel_bytes") // 8 + slots * piece, dtype=torch.int64)
    code.call("open_channel", channel)
    line, key = torch.tensor([3, 7]), torch.tensor([11, 0])
    sums = torch.zeros(2, messages, dtype=torch.int64)
    sizes = (n, messages, piece, slots, polled)
    expected = ipc_transport.reference([line, key], n, messages)[0]
    for _ in range(3):
        sums.zero_()
        asking = Thread(target=code.call, args=("ask_shared", line, channel, sums[0], *sizes), daemon=True)
        asking.start()
        code.call("answer_shared", key, channel, sums[1], *sizes)
        asking.join(10)
        assert not asking.is_alive()
        assert sums.tolist() == [expected.tolist()] * 2


@pytest.mark.parametrize("neighbour", [launch_jitter.SharedCore, launch_jitter.IdleNeighbour, launch_jitter.Quiet])
def test_a_neighbour_stays_no_longer_than_a_call(neighbour: type[launch_jitter.SharedCore]) -> None:
    server, threads = neighbour(), Path("/proc/self/task")
    server.prepare()
    usable, before = os.sched_getaffinity(0), set(threads.iterdir())
    with contextlib.suppress(ZeroDivisionError), server.beside():
        assert os.sched_getaffinity(0) == {server.here}
        added = set(threads.iterdir()) - before
        assert len(added) == (server.there is not None)
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == usable
    ended_s = time.monotonic() + 5  # the kernel lists a thread for a moment after its end
    while any(thread.exists() for thread in added):
        assert time.monotonic() < ended_s


def test_cores_of_the_steps_and_of_the_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_jitter, "TOPOLOGY", tmp_path)
    (tmp_path / "isolated").write_text("2-3\n")
    for processor, together in enumerate(("0", "1,3", "2", "1,3")):
        (tmp_path / f"cpu{processor}/topology").mkdir(parents=True)
        (tmp_path / f"cpu{processor}/topology/thread_siblings_list").write_text(together)
    assert launch_jitter.OwnCore().processors([0, 1, 3]) == (3, 0)
    assert launch_jitter.BusySibling().processors([0, 1, 3]) == (3, 1)
    assert launch_jitter.IsolatedCore().processors([0, 1, 3]) == (3, 1)
    with pytest.raises(SkipError, match=r"needs 2 cores \(2 processors of 1 core are usable here\)"):
        launch_jitter.OwnCore().processors([1, 3])
    with pytest.raises(SkipError, match="processor 3 has no usable sibling"):
        launch_jitter.BusySibling().processors([0, 3])
    for usable, count in (([0, 1], 0), ([2], 1)):
        with pytest.raises(SkipError, match=f"isolated says '2-3', of which {count} are usable here"):
            launch_jitter.IsolatedCore().processors(usable)


PLACED = [numa_locality.TouchedByOne, numa_locality.Interleaved, numa_locality.TouchedByUsers]


@pytest.mark.parametrize("placed", PLACED)
@pytest.mark.parametrize("n", [1, 1025, 9 * 1024 + 7])
def test_a_triad_in_pages_that_lie_where_they_belong(
    placed: type[numa_locality.TouchedByOne], n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not numa_locality.usable_nodes():
        pytest.skip("this kernel shows no NUMA nodes")
    monkeypatch.setattr(numa_locality, "LEAST_NODES", 1)
    b, c, scale = torch.randn(n), torch.randn(n), torch.tensor([0.5])
    usable, triad = os.sched_getaffinity(0), placed()
    triad.prepare(b, c, n)
    torch.testing.assert_close(triad.run(scale), b + scale * c)
    assert os.sched_getaffinity(0) == usable


def test_the_node_that_a_page_belongs_to(monkeypatch: pytest.MonkeyPatch) -> None:
    triad = numa_locality.TouchedByUsers()
    triad.nodes, triad.owners = [0, 2], [0, 0, 2, 2]
    assert [triad.expected(place) for place in (0.0, 0.49, 0.5, 0.999)] == [[0], [0], [2], [2]]
    monkeypatch.setattr(numa_locality, "LEAST_NODES", 1)
    if numa_locality.usable_nodes():
        monkeypatch.setattr(triad, "expected", lambda place: [63])
        with pytest.raises(SkipError, match=r"needs free memory at the nodes; 15 of 15 pages lie elsewhere"):
            triad.prepare(torch.ones(4100), torch.ones(4100), 4100)


def test_one_node_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa_locality, "node_cpus", lambda: {0: sorted(os.sched_getaffinity(0)), 1: [4095]})
    with pytest.raises(SkipError, match=r"needs 2 NUMA nodes with processors \(1 usable here\)"):
        numa_locality.TouchedByOne().prepare(torch.ones(1), torch.ones(1), 1)


def locked_kib() -> int:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck:"))
    return int(line.split()[1])


def test_memory_is_locked_until_it_is_released_or_gone() -> None:
    before = locked_kib()
    host = pinned_cost.fresh(4096)
    lock = pinned_cost.Lock(host, on_gpu=False)
    assert locked_kib() == before + 16
    lock.release()
    assert locked_kib() == before
    pinned_cost.Lock(host, on_gpu=False)
    assert locked_kib() == before + 16
    del host
    assert locked_kib() == before


def test_a_lock_beyond_the_limit_is_a_reason_to_skip() -> None:
    code = """
import os, resource, torch
from aiperf_ch03 import pinned_cost
from aiperf_core.errors import SkipError
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
if os.getuid() == 0:
    os.setuid(65534)
try:
    pinned_cost.LockedEachTime().prepare(torch.zeros(1, 4096), 4096)
except SkipError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in (
        f"needs 16 KiB of locked memory ({reason}; ulimit -l shows the limit)\n"
        for reason in ("Cannot allocate memory", "Operation not permitted")
    )
