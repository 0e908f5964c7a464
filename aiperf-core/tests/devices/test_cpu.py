import mmap
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
import torch

from aiperf_core.devices import cpu
from aiperf_core.devices.cpu import CpuDevice, last_level_cache_bytes, own_cache_bytes, process_bytes
from aiperf_core.devices.cpu_kind import CpuKind
from aiperf_core.measurements import Flush

pytestmark = pytest.mark.quiet

MIB = 1 << 20


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """A processor with a last-level cache of 1 MiB."""
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: MIB)
    return CpuDevice(1)


def test_a_call_is_timed_by_the_monotonic_clock(device: CpuDevice) -> None:
    # Threads of torch spin for some 10 ms after their last work.
    timed = device.time(lambda: time.sleep(0.1), "wall")
    assert timed.wall_s is not None
    assert 0.1 <= timed.wall_s < 2.0
    assert timed.device_s is None
    assert timed.hidden is False
    # A process that sleeps uses no processor.
    assert timed.cpu_s < timed.wall_s / 2


def test_processor_time_is_that_of_the_work(device: CpuDevice) -> None:
    def work() -> int:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        return 7

    timed = device.time(work, "device")
    assert timed.result == 7
    assert timed.cpu_s >= 0.02
    assert timed.device_s is None


def test_a_call_that_raises_raises(device: CpuDevice) -> None:
    with pytest.raises(ZeroDivisionError):
        device.time(lambda: 1 / 0, "wall")


def test_several_calls_are_one_sample(device: CpuDevice) -> None:
    made: list[int] = []
    timed = device.time(lambda: made.append(0) or len(made), "wall", calls=7)
    assert (timed.result, len(made)) == (7, 7)


def test_a_thread_that_waits_is_a_voluntary_switch(device: CpuDevice) -> None:
    timed = device.time(lambda: time.sleep(0.001), "wall", calls=20)
    assert timed.voluntary_switches >= 20
    assert device.time(lambda: None, "wall").voluntary_switches == 0
    assert timed.involuntary_switches >= 0


def test_what_timing_costs() -> None:
    cost = cpu.clock_cost()
    assert 10e-9 < cost < 20e-6
    assert cost < cpu.wall_of(lambda: time.sleep(0.0001))


def test_the_flush_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = CpuDevice(1).probe_flush()
    assert found is not None
    assert min(found.hot_s, found.cold_s, found.flushed_s) > 0
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: MIB)
    assert CpuDevice(4 * MIB).probe_flush() is None


def test_where_a_shared_cache_shows_nothing_the_cores_own_is_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def probed(read, displace, flush, timed, typical):  # type: ignore[no-untyped-def]
        asked.append((read.__self__.numel() * 8, displace.__self__.numel() * 8, typical))
        return Flush(1.0, cold[len(asked) - 1], 1.0)

    monkeypatch.setattr(cpu, "probe", probed)
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: 4 * MIB)
    monkeypatch.setattr(cpu, "own_cache_bytes", lambda: MIB)
    device, cold = CpuDevice(1), [1.9, 8.0]
    # A buffer that was replaced is no measure.
    device._flush = torch.empty(64, dtype=torch.uint8)
    assert device.probe_flush() == Flush(1.0, 8.0, 1.0)
    assert asked == [(2 * MIB, 8 * MIB, min), (MIB // 16, 8 * MIB, min)]
    asked, cold = [], [2.0]
    assert device.probe_flush() == Flush(1.0, 2.0, 1.0)
    assert asked == [(2 * MIB, 8 * MIB, min)]


def test_a_flush_writes_twice_the_cache(device: CpuDevice) -> None:
    assert device._flush is not None
    assert device._flush.numel() == 2 * MIB
    device._flush.fill_(3)
    device.flush()
    assert not device._flush.any()


@pytest.mark.parametrize(("working_set", "flushed"), [(4 * MIB - 1, True), (4 * MIB, False), (1 << 40, False)])
def test_a_large_working_set_evicts_itself(monkeypatch: pytest.MonkeyPatch, working_set: int, flushed: bool) -> None:
    monkeypatch.setattr(cpu, "last_level_cache_bytes", lambda: MIB)
    device = CpuDevice(working_set)
    assert (device._flush is not None) is flushed
    device.flush()
    device.synchronize()


def test_memory_is_what_a_call_added(device: CpuDevice) -> None:
    device.reset_memory()
    # Not from malloc, which may hand out what this process has freed and kept.
    with mmap.mmap(-1, 64 * MIB) as kept:
        for page in range(0, 64 * MIB, 4096):
            kept[page] = 1
    used = device.memory()
    assert used.peak_bytes == used.host_peak_bytes
    assert used.peak_bytes is not None
    assert 60 * MIB <= used.peak_bytes <= 256 * MIB
    assert (used.allocated_bytes, used.reserved_bytes) == (None, None)


def test_the_kernels_figures_of_this_process() -> None:
    assert 0 < process_bytes("VmRSS") <= process_bytes("VmHWM")
    assert process_bytes("VmRSS") % 1024 == 0
    assert process_bytes("NoSuchFigure") == 0


def caches(folder: Path, **sizes: str) -> Path:
    for name, size in sizes.items():
        file = folder / name / "size"
        file.parent.mkdir(parents=True)
        file.write_text(size + "\n")
    return folder


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ({"index0": "32K", "index2": "1024K", "index3": "36608K"}, 36608 << 10),
        ({"index0": "32K", "index3": "2M"}, 2 << 20),
        ({"index4": "1G"}, 1 << 30),
        ({"index0": "4096"}, 4096),
        ({"uevent": "99M"}, 32 << 20),
        ({}, 32 << 20),
    ],
)
def test_the_last_level_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, str], found: int
) -> None:
    folder = caches(tmp_path, **sizes)
    monkeypatch.setattr(cpu, "Path", lambda _: folder)
    assert last_level_cache_bytes() == found


def test_the_cache_of_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = caches(tmp_path, index0="48K", index2="2048K", index3="480M")
    for index, level in (("index0", 1), ("index2", 2), ("index3", 3)):
        (folder / index / "level").write_text(f"{level}\n")
    monkeypatch.setattr(cpu, "Path", lambda _: folder)
    assert own_cache_bytes() == 2 << 20
    monkeypatch.setattr(cpu, "Path", lambda _: tmp_path / "none")
    assert own_cache_bytes() == 256 << 10


def test_a_kernel_that_keeps_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "Path", lambda _: Path("/no/such/folder/clear_refs"))
    cpu.reset_peak_rss()


FAULTS = """
import resource
import torch
from aiperf_core.devices.cpu import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.empty(48 << 20, dtype=torch.uint8).fill_(0xFF)  # more than malloc would keep unasked
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
print(*(faults() for _ in range(36)))
"""


def test_freed_memory_is_handed_out_again() -> None:
    # In a process of its own: where many tests left holes in the heap, the block may come from anywhere.
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    faults = [int(count) for count in done.stdout.split()]
    # Fresh memory faults once for each page, or once for each 2 MiB where the kernel gives huge ones.
    assert faults[0] >= 24
    # In the first calls torch still puts small objects behind a block; malloc then finds it too small for an aligned one.
    assert median(faults[12:]) < 12


GAPS = """
import sys
import torch
from aiperf_core.devices import cpu

MIB = 1 << 20
# Each block is larger than the one before; of two, one is let go soon, and one lies in its way.
BLOCKS = [(MIB // 4 + step * MIB // 16, 2 + step % 2 * 5) for step in range(60)]
live = [sum(size for number, (size, lasts) in enumerate(BLOCKS[: step + 1]) if number + lasts > step) for step in range(60)]

def call():
    held = {}
    for step, (size, lasts) in enumerate(BLOCKS):
        held[step + lasts, step] = torch.empty(size, dtype=torch.uint8).fill_(1)
        held = {(until, number): one for (until, number), one in held.items() if until > step + 1}

device = cpu.CpuDevice(1 << 40)
getattr(cpu, sys.argv[1])()
torch.ones(1).add_(1)  # the libraries' own memory
device.reset_memory()
for _ in range(3):
    call()
print(max(live), device.memory().peak_bytes)
"""


@pytest.mark.parametrize(("how", "exact"), [("give_back_freed_memory", True), ("keep_freed_memory", False)])
def test_gaps_between_blocks_are_memory_only_where_malloc_keeps_them(how: str, exact: bool) -> None:
    done = subprocess.run([sys.executable, "-c", GAPS, how], capture_output=True, text=True, check=True)
    live, peak = (int(count) for count in done.stdout.split())
    assert peak > 0.9 * live - 2 * MIB
    assert (peak < 1.1 * live + 2 * MIB) is exact


LARGE = """
import torch
from aiperf_core.devices.cpu import CpuDevice, give_back_freed_memory, keep_freed_memory, process_bytes

keep_freed_memory()
blocks = [torch.empty(1 << 20, dtype=torch.uint8).fill_(1) for _ in range(64)]
kept = blocks[-1]
del blocks
before = process_bytes("VmRSS")
give_back_freed_memory()
print(before - process_bytes("VmRSS"))
"""


def test_what_was_kept_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    assert 60 * MIB <= int(done.stdout) <= 66 * MIB


def test_pages_of_files_are_no_memory_of_a_call(device: CpuDevice) -> None:
    library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"  # large, and on a disk
    device.reset_memory()
    with library.open("rb") as file, mmap.mmap(file.fileno(), 32 * MIB, prot=mmap.PROT_READ) as mapped:
        assert any(mapped[page] for page in range(0, 32 * MIB, 4096))
        assert process_bytes("VmHWM") - process_bytes("VmRSS") < MIB
        used = device.memory()
    assert used.peak_bytes is not None
    assert used.peak_bytes < 8 * MIB


def test_without_malloc_of_glibc_all_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu.ctypes, "CDLL", lambda _: object())
    cpu.give_back_freed_memory()
    cpu.keep_freed_memory()


def test_the_device_of_that_name() -> None:
    assert isinstance(CpuKind().open(1 << 40, all_streams=True), CpuDevice)
    assert CpuKind().open(1 << 40, all_streams=True).name == "cpu"
