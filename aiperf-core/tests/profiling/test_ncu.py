"""The page here is made by hand, after the format that Nsight Compute documents for `--csv --page raw`; ncu did not print it."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Job
from aiperf_core.profiling import ncu, programs
from aiperf_core.profiling.ncu import Ncu, read

JOB = Job(target="a.b", module="m", implementation="wide", device="cuda", params={}, cache="cold")

COLUMNS = (
    ("ID", "", "0", "1"),
    ("Kernel Name", "", "void wide(float*)", "tail(int)"),
    ("Context", "", "1", "1"),
    ("gpu__time_duration.sum", "nsecond", "3,000.00", "1000"),
    ("dram__bytes.sum", "byte", "6,000,000", "1,000,000"),
    ("dram__bytes.sum.per_second", "byte/second", "2,000,000,000,000", "1,000,000,000,000"),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "80", "40"),
    ("lts__t_sector_hit_rate.pct", "%", "50", "10"),
    ("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", "sector/request", "4", "32"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "%", "60", "20"),
    ("sm__maximum_warps_per_active_cycle_pct", "%", "75", "100"),
    ("launch__occupancy_limit_registers", "block", "6", "8"),
    ("launch__occupancy_limit_shared_mem", "block", "6", "8"),
    ("launch__occupancy_limit_warps", "block", "8", "8"),
    ("launch__registers_per_thread", "register/thread", "40", "16"),
    ("smsp__inst_executed.sum", "inst", "900", "100"),
    ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst", "8", "4"),
    ("smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "inst", "1", "nan"),
)


def page(columns: tuple[tuple[str, ...], ...] = COLUMNS) -> str:
    lines = [",".join(f'"{cell}"' for cell in row) for row in zip(*columns, strict=True)]
    return "==PROF== Connected to process 1\n" + "\n".join(lines) + "\n"


def test_a_page_is_read_in_si_units() -> None:
    found: Any = read(page(), JOB, 1, "2025.1")
    assert found.figures["busy_s"] == pytest.approx(4e-6)
    assert found.figures["kernels"] == 2
    assert found.figures["dram_bytes"] == 7e6
    assert found.figures["warp_instructions"] == 1000
    # Means are weighted by time, 3 to 1.
    assert found.figures["dram_bytes_per_s"] == pytest.approx(1.75e12)
    assert found.figures["dram_share"] == pytest.approx(0.7)
    assert found.figures["l2_hit"] == pytest.approx(0.4)
    assert found.figures["sectors_per_load"] == pytest.approx(11)
    assert found.figures["occupancy"] == pytest.approx(0.5)
    assert found.figures["stall.long_scoreboard"] == pytest.approx(7)
    assert found.figures["stall.barrier"] == pytest.approx(1)
    assert found.words == {"occupancy_limiter": "registers and shared memory"}
    assert [(one.name, one.share, one.metrics["registers"]) for one in found.hot] == [
        ("void wide(float*)", pytest.approx(0.75), 40),
        ("tail(int)", pytest.approx(0.25), 16),
    ]


@pytest.mark.parametrize(
    ("unit", "scale"), [("usecond", 1e-6), ("Kbyte", 1e3), ("byte/nsecond", 1e9), ("Gbyte/second", 1e9), ("%", 0.01)]
)
def test_units_that_ncu_chose_are_undone(unit: str, scale: float) -> None:
    columns = (*COLUMNS[:4], ("x.sum", unit, "2", "2"))
    found = read(page(columns), evolve(JOB, metrics=("x.sum",)), 1, "2025.1")
    assert found.figures["x.sum"] == pytest.approx(4 * scale)


def test_what_the_gpu_does_not_count_is_named() -> None:
    assert read(page(), JOB, 1, "2025.1").missing["tensor pipe"] == "this GPU has no such counter"


@pytest.mark.parametrize("text", ["", "==PROF== No kernels were profiled.\n", page().splitlines()[1]])
def test_a_page_without_kernels_is_refused(text: str) -> None:
    with pytest.raises(AiperfError, match=r"ncu recorded no kernel of 'a.b:wide': .*--tool torch"):
        read(text, JOB, 1, "2025.1")


def test_a_right_that_is_missing_is_said_with_the_remedy() -> None:
    assert Ncu(JOB).remedy("==PROF== done") is None
    said = Ncu(JOB).remedy("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access ...")
    assert said is not None
    assert "NVreg_RestrictProfilingToAdminUsers=0" in said


def test_what_is_missing_is_said_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    assert "install Nsight Compute" in str(Ncu(JOB).unavailable())
    monkeypatch.setattr(programs, "find", lambda name: "/x/ncu")
    monkeypatch.setattr(ncu, "_admins_only", lambda parameters: True)
    monkeypatch.setattr(ncu, "_is_admin", lambda: False)
    assert "ERR_NVGPUCTRPERM" in str(Ncu(JOB).unavailable())
    monkeypatch.setattr(ncu, "_is_admin", lambda: True)
    assert Ncu(JOB).unavailable() is None
    with pytest.raises(AiperfError, match=r"ncu left no readable 'profile.ncu-rep'"):
        Ncu(JOB).summarise(tmp_path, 1)


def test_the_driver_says_who_may_count(tmp_path: Path) -> None:
    (tmp_path / "params").write_text("RegistryDwords: \nRmProfilingAdminOnly: 1\n")
    assert ncu._admins_only(tmp_path / "params")
    assert not ncu._admins_only(tmp_path / "none")


def test_caches_are_as_the_benchmark_declares_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: "/x/ncu")
    (cold,) = Ncu(JOB).commands(["python", "x.py"], tmp_path)
    (warm,) = Ncu(evolve(JOB, cache="warm", metrics=("x.sum",))).commands(["python", "x.py"], tmp_path)
    assert "--cache-control=all" in cold
    assert "--section=Occupancy" in cold
    assert "--cache-control=none" in warm
    assert "--metrics=gpu__time_duration.sum,x.sum" in warm
    assert not any(one.startswith("--section") for one in warm)
    assert warm[-2:] == ["python", "x.py"]
