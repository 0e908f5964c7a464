"""Ceilings of the processor at tiny sizes, and of a GPU where there is one."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cattrs
import pytest

from aiperf_core.ceiling_groups import GROUPS
from aiperf_core.devices import ceiling_figures, ceilings, cpu_ceilings, sysfs
from aiperf_core.devices.cpu_kind import CpuKind
from aiperf_core.devices.cuda_kind import CudaKind
from aiperf_core.devices.measuring import Page
from aiperf_core.errors import AiperfError
from aiperf_core.kernels import CudaSource, HostSource
from aiperf_core.measurements import Ceilings

pytestmark = pytest.mark.quiet

DEVICES = Path(ceilings.__file__).parent
BASIC = {
    *ceiling_figures.REQUIRED,
    *(f"flop_per_s.{name}" for name in ("fp64", "fp32", "bf16", "int8")),
    "vector_flop_per_s.fp32",
    "vector_flop_per_s.fp64",
}
WHOLE = BASIC | {
    *(f"stream_bytes_per_s.{name}" for name in ("scale", "add", "triad")),
    "cache_bytes_per_s",
    "timer_resolution_s",
    "timer_call_s.perf_counter",
    "timer_call_s.process_time",
}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Arrays, products and budgets that take next to no time."""
    monkeypatch.setattr(cpu_ceilings, "SHAPES", ((64, 64, 64), (64, 32, 96)))
    monkeypatch.setattr(cpu_ceilings, "_array_bytes", lambda: 1 << 20)
    monkeypatch.setattr(cpu_ceilings, "caches_bytes", lambda: 1 << 20)
    monkeypatch.setattr(cpu_ceilings, "_BANDWIDTH_S", 0.001)
    monkeypatch.setattr(cpu_ceilings, "_PRODUCT_S", 0.001)
    monkeypatch.setattr(cpu_ceilings, "_FMA_ROUNDS", 1000)
    monkeypatch.setattr(cpu_ceilings, "keep_freed_memory", lambda: None)  # of the tests' own process


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("whole", "keys"), [(False, BASIC), (True, WHOLE)])
def test_the_figures_of_a_processor(whole: bool, keys: set[str]) -> None:
    told: list[str] = []
    found = cattrs.structure(ceilings.measure(CpuKind(), whole, told.append), Ceilings)
    assert found.missing == {}
    assert ceiling_figures.figures(found).keys() == keys
    assert found.how.keys() == keys
    assert all(value > 0 for value in ceiling_figures.figures(found).values())
    assert found.whole is whole
    assert found.datasheet == {}
    assert found.took_s is not None
    assert "fp32 matmul" in told


@pytest.mark.usefixtures("tiny")
def test_without_a_compiler_the_library_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(self: HostSource, name: str) -> Any:
        raise AiperfError("needs a C compiler (looked for $CC, cc, gcc, clang)")

    monkeypatch.setattr(HostSource, "function", no_compiler)
    monkeypatch.setattr(cpu_ceilings._source, "_functions", {})  # a test before this one has loaded them
    found = cattrs.structure(ceilings.measure(CpuKind(), whole=True), Ceilings)
    assert found.how["copy_bytes_per_s"] == "torch copy_, 1 MiB"
    assert set(found.missing) == {"vector_flop_per_s.fp32", "vector_flop_per_s.fp64", "cache_bytes_per_s"}
    assert set(found.missing.values()) == {
        "needs a C compiler (looked for $CC, cc, gcc, clang); with one: aiperf ceilings --refresh"
    }


@pytest.mark.usefixtures("tiny")
def test_without_bandwidths_there_are_no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(cpu_ceilings, "quickest", broken)
    with pytest.raises(AiperfError, match=r"^the bandwidth of .* threads could not be measured: no room$"):
        ceilings.measure(CpuKind(), whole=False)


def test_the_loops_do_what_they_are_called() -> None:
    import torch

    a, b, c = (torch.full((256,), value, dtype=torch.float64) for value in (2.0, 5.0, 0.0))
    call = cpu_ceilings._source.call
    for name, arguments, expected in (
        ("stream_copy", (c, a, 256), 2.0),
        ("stream_scale", (c, a, 3.0, 256), 6.0),
        ("stream_add", (c, a, b, 256), 7.0),
        ("stream_triad", (c, a, b, 3.0, 256), 17.0),
        ("stream_write", (c, 256), 1.0),
    ):
        c.fill_(0.0)
        call(name, *arguments)
        assert c.tolist() == [expected] * 256, name


def test_the_work_of_the_multiply_add_loop_is_proportional_to_its_rounds() -> None:
    call = cpu_ceilings._source.call
    assert call("fma32", 20) == 2 * call("fma32", 10) > 0
    assert call("fma64", 20) == 2 * call("fma64", 10) > 0


def test_caches_are_counted_once_each() -> None:
    assert cpu_ceilings.caches_bytes() >= 1 << 15
    assert sysfs.size_bytes("32768K") == 32 << 20
    assert sysfs.size_bytes("1M") == 1 << 20
    assert sysfs.size_bytes("") == 0


def test_other_processes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    now = [0.0]

    def times(percpu: bool) -> list[Any]:
        # Two processors, busy for three quarters of the time.
        part = now[0]
        fields = {"user": 0.75 * part, "nice": 0.0, "system": 0.0, "idle": 0.25 * part, "iowait": 0.0}
        one = SimpleNamespace(**fields)
        return [_Times((fields["user"], fields["idle"]), one)] * 2

    class _Times(tuple[float, ...]):
        def __new__(cls, values: Any, named: Any) -> "_Times":
            made = super().__new__(cls, values)
            made.idle, made.iowait = named.idle, named.iowait  # type: ignore[attr-defined]
            return made

    monkeypatch.setattr(psutil, "cpu_times", times)
    monkeypatch.setattr(ceilings.os, "sched_getaffinity", lambda _: {0, 1})  # type: ignore[attr-defined]
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    others = ceilings.OtherProcesses()
    now[0] = 0.1
    assert others.share() is None
    now[0] = 10.0
    # Fifteen of twenty seconds were busy, of which ten were ours.
    assert others.share() == pytest.approx(0.25)


@pytest.mark.parametrize("file", sorted(DEVICES.glob("*.cu")), ids=lambda file: file.name)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_kernels_of_the_core_compile(file: Path, arch: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
    from aiperf_core.kernels.archs import parse_arch
    from aiperf_core.kernels.resources import resources_of, spills_in

    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    source = CudaSource(file)
    compiled = source.compile_instances(arch, ())
    used = resources_of(compiled.code, parse_arch(arch), spills_in(compiled.log.decode()))
    assert used.keys() == set(source.names())
    # A register that is spilled would make a ceiling too low.
    assert all(one.stack_bytes == one.spill_bytes == 0 for one in used.values())


def test_random_and_dependent_reads_of_a_processor() -> None:
    found = ceilings.measure_groups(CpuKind(), ["sectors", "steps", "transfers"])["figures"]
    assert found.keys() == {"sectors_per_s", "serial_step_s"}
    assert 1e-10 < found["serial_step_s"] < 1e-6
    assert 1e4 < found["sectors_per_s"] < 1e11


@pytest.mark.gpu
def test_the_page_of_a_gpu() -> None:
    import torch

    start = time.monotonic()
    basic = cattrs.structure(ceilings.measure(CudaKind(), whole=True), Ceilings)
    groups = [one for one in GROUPS if one not in ("disk", "all_reduce")]
    found = ceiling_figures.with_figures(basic, ceilings.measure_groups(CudaKind(), groups))
    assert time.monotonic() - start < 30
    have = ceiling_figures.figures(found)
    wanted = {
        *ceiling_figures.REQUIRED,
        "cache_bytes",
        *(f"flop_per_s.{name}" for name in ("fp64", "fp32", "tf32", "fp16", "bf16")),
        "vector_flop_per_s.fp32",
        "vector_flop_per_s.fp64",
        "multiply_add_flop_per_s.fp32",
        "multiply_add_flop_per_s.fp64",
        "special_functions_per_s",
        "sectors_per_s",
        "serial_step_s",
        "cache_bytes_per_s",
        "shared_bytes_per_s",
        "launch_s",
        "launch_wait_s",
        "graph_launch_s",
        *(f"transfer_bytes_per_s.{a}_{b}" for a in ("pinned", "pageable") for b in ("to_device", "from_device")),
    }
    assert wanted <= have.keys(), found.missing
    if torch.cuda.get_device_capability() >= (8, 9):
        assert "flop_per_s.fp8" in have, found.missing
    assert have["cache_bytes"] == torch.cuda.get_device_properties().L2_cache_size
    assert have["cache_bytes_per_s"] > have["read_bytes_per_s"]
    assert have["shared_bytes_per_s"] > have["cache_bytes_per_s"]
    assert 1e-7 < have["graph_launch_s"] < have["launch_wait_s"] < 1e-3
    assert have["multiply_add_flop_per_s.fp32"] <= 1.02 * have["vector_flop_per_s.fp32"]
    # An SM has 16 units for special functions beside 128 for multiply-adds of two operations.
    assert have["special_functions_per_s"] == pytest.approx(have["vector_flop_per_s.fp32"] / 16, rel=0.2)
    assert 32 * have["sectors_per_s"] < have["read_bytes_per_s"]
    assert 1e-8 < have["serial_step_s"] < 1e-6
    for key, fraction in ceiling_figures.of_datasheet(found).items():
        # Pageable memory is copied once more, by the host, at a rate that no sheet of the GPU promises.
        assert (0.02 if ".pageable" in key else 0.2) < fraction < 1.05, (key, fraction)


@pytest.mark.gpu
def test_events_cost_microseconds() -> None:
    from aiperf_core.devices.cuda_ceilings import _Gpu

    page = Page(lambda _: None)
    page.take("event_overhead_s", "", _Gpu().event_overhead)
    assert page.missing == {} or "CUPTI" in page.missing["event_overhead_s"]
    assert 0 <= page.figures.get("event_overhead_s", 0.0) < 2e-5
