"""`benchmarks/accuracy.py` decides, prints, reads and records what it should. What it measures needs a GPU."""

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.kernels import CudaSource
from aiperf_core.results import jsontext

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "accuracy.py"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="needs the repository's folder `benchmarks`")

CSV_HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
METRIC = "gpu__time_duration.sum"


@pytest.fixture(scope="module")
def accuracy(script: ModuleType) -> ModuleType:
    return script


@pytest.fixture
def row(accuracy: ModuleType) -> Callable[..., Any]:
    """A row as told: `aiperf_us` and `cupti_us`, and any field by its name."""

    def make(aiperf_us: float = 10.0, cupti_us: float | None = 10.0, **others: Any) -> Any:
        truth = [] if cupti_us is None else [cupti_us * 1e-6] * 3
        samples = [aiperf_us * 1e-6 + 2e-6] * 3
        given = {
            "name": "scale 1 MiB",
            "hidden": True,
            "span_s": truth,
            "event_s": samples if truth else [],
            "pieces": 1,
        }
        return accuracy.Row(overhead_s=2e-6, samples_s=samples, **{**given, **others})

    return make


def csv_line(number: int, kernel: str, value: str, unit: str = "ns", metric: str = METRIC) -> str:
    return f'"{number}","7","python3","127.0.0.1","{kernel}","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0","s","{metric}","{unit}","{value}"'


def csv_of(*lines: tuple[str, str, str]) -> str:
    rows = [csv_line(number, *line) for number, line in enumerate(lines)]
    return "\n".join(["==PROF== Connected to process 7 (/usr/bin/python3)", CSV_HEAD, *rows, "==PROF== Disconnected"])


# --- the bar


@pytest.mark.parametrize(
    ("found_us", "truth_us", "good"),
    [
        (1.49, 1.0, True),  # half a microsecond, where 5 % is less
        (1.51, 1.0, False),
        (0.49, 1.0, False),
        (104.9, 100.0, True),  # 5 %, where it is more
        (105.1, 100.0, False),
        (94.9, 100.0, False),
    ],
)
def test_the_bar(accuracy: ModuleType, found_us: float, truth_us: float, good: bool) -> None:
    assert accuracy.within(found_us * 1e-6, truth_us * 1e-6) is good


def test_what_could_not_be_compared_has_not_passed(accuracy: ModuleType, row: Callable[..., Any]) -> None:
    rows = [
        row(name="near"),
        row(20.0, name="far"),
        row(cupti_us=None, name="untraced", problem="CUPTI recorded no work for a call"),
        row(name="waits by itself", hidden=False),
        row(20.0, name="graph", counts=False),
    ]
    assert [accuracy.verdict(one) for one in rows] == ["pass", "FAIL", "no CUPTI", "not hidden", "shown"]
    assert accuracy.missed(rows) == ["far", "untraced", "waits by itself"]


def test_nsight_compute_s_bar_counts_unless_it_contradicts_cupti(accuracy: ModuleType, row: Callable[..., Any]) -> None:
    near = row(100.0, 100.0, name="near", ncu_s=[104e-6])
    contradicts = row(100.0, 100.0, name="contradicts", ncu_s=[120e-6])
    far = row(96.0, 100.0, name="far", ncu_s=[104e-6])  # both are within the bar of CUPTI, not of each other
    unasked = row(100.0, 100.0, name="unasked")
    rows = [near, contradicts, far, unasked]
    assert [accuracy.ncu_verdict(one) for one in rows] == ["pass", "refs differ", "FAIL", None]
    assert [accuracy.verdict(one) for one in rows] == ["pass"] * 4
    assert accuracy.missed(rows) == ["far"]
    assert "1 of 3 within the same of Nsight Compute, 1 not, and in 1 it differs from CUPTI as well" in accuracy.table(
        rows, {}
    )


# --- table and record


def test_the_table_shows_every_clock_and_why_one_is_missing(accuracy: ModuleType, row: Callable[..., Any]) -> None:
    whole = row(
        11.0,
        10.0,
        do_bench_s=13e-6,
        timer_s=14e-6,
        plain_events_s=[15e-6, 16e-6, 17e-6],
        ncu_s=[12e-6],
        event_s=[12.4e-6],
    )
    bare = row(1500.0, None, name="chain", pieces=0, problem="CUPTI recorded no work for a call")
    lines = accuracy.table([whole, bare], {"do_bench": "No module named 'triton'"}).splitlines()
    assert [" ".join(line.split()) for line in lines[:4] if "---" not in line] == [
        "case work CUPTI aiperf off off, % same, % bar do_bench Timer events ncu ncu, % ncu bar",
        "scale 1 MiB 1 10.00 11.00 +1.00 +10.0 +4.0 pass 13.00 14.00 16.00 12.00 -8.3 refs differ",
        "chain - - 1,500.00 - - - no CUPTI - - - - - -",
    ]
    assert len(lines[0]) == len(lines[2]) == len(lines[3])
    assert lines[-3:] == [
        "chain: CUPTI recorded no work for a call",
        "1 of 2 cases within 5% or 0.5 us of CUPTI",
        "0 of 1 within the same of Nsight Compute, 0 not, and in 1 it differs from CUPTI as well",
    ]
    assert "do_bench: not run: No module named 'triton'" in lines


def test_the_record_keeps_raw_samples_to_the_nanosecond(accuracy: ModuleType, row: Callable[..., Any]) -> None:
    one = row(11.0, 10.0, plain_events_s=[1.23456789123e-5])
    kept = jsontext.loads(jsontext.to_bytes(accuracy.record([one], {"gpu": "H200"}, {"ncu": "refused"})))
    assert kept["bar"] == {"relative": 0.05, "seconds": 5e-7}
    assert (kept["machine"], kept["not_run"], kept["missed"]) == ({"gpu": "H200"}, {"ncu": "refused"}, ["scale 1 MiB"])
    (found,) = kept["rows"]
    assert found["plain_events_s"] == [1.2346e-5]
    assert found["samples_s"] == [1.3e-5] * 3
    assert (found["cupti_s"], found["aiperf_s"], found["overhead_s"]) == (1e-5, 1.1e-5, 2e-6)
    assert (found["bar"], found["ncu_bar"], found["do_bench_s"]) == ("FAIL", None, None)


# --- Nsight Compute


def test_its_list_is_read_in_any_unit(accuracy: ModuleType) -> None:
    lines = [("boundary", "1,216", "ns"), ("void k<float, 2>(int)", "10,196,000", "nsecond"), ("k", "41.28", "usecond")]
    lines += [("k", "1.5", "ms"), ("k", "2", "second")]
    text = csv_of(*lines) + "\n" + csv_line(9, "k", "12", "%", "sm__throughput.avg.pct_of_peak_sustained_elapsed")
    found = accuracy.parse_ncu(text)
    assert [name for name, _ in found] == ["boundary", "void k<float, 2>(int)", "k", "k", "k"]
    assert [seconds for _, seconds in found] == pytest.approx([1.216e-6, 10.196e-3, 41.28e-6, 1.5e-3, 2.0])
    assert accuracy.parse_ncu("==ERROR== ERR_NVGPUCTRPERM\n") == []


def test_a_kernel_without_a_time_is_told(accuracy: ModuleType) -> None:
    with pytest.raises(AiperfError, match=r"^it tells no time of the kernel 'k': 'n/a' ''$"):
        accuracy.parse_ncu(csv_of(("k", "n/a", "")))


def test_its_kernels_are_cut_into_calls_and_only_single_ones_count(accuracy: ModuleType) -> None:
    calls = [("boundary", 9.0), ("gemm", 1.0), ("boundary()", 9.0), ("gemm", 2.0)]
    split = [("boundary", 9.0), ("gemm", 3.0), ("reduce", 4.0), ("boundary", 9.0), ("gemm", 5.0)]
    assert accuracy.by_case(calls + split, ["one", "two"], 2) == {"one": [1.0, 2.0]}
    with pytest.raises(AiperfError, match=r"^it saw 2 of 4 calls$"):
        accuracy.by_case(calls, ["one", "two"], 2)


def test_calls_that_cupti_saw_more_in_are_not_compared(accuracy: ModuleType, row: Callable[..., Any]) -> None:
    times = {"scale 1 MiB": [1e-6]}
    assert accuracy.with_ncu(row(), times).ncu_s == [1e-6]
    assert accuracy.with_ncu(row(pieces=2), times).ncu_s == []
    assert accuracy.with_ncu(row(name="other"), times).ncu_s == []


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program `ncu` on the path; in its text, `log` is the file that it was told to write."""

    def put(text: str) -> None:
        file = tmp_path / "ncu"
        find_log = "import sys, time; log = open(sys.argv[sys.argv.index('--log-file') + 1], 'w')"
        file.write_text(f"#!{sys.executable}\n{find_log}\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path))

    return put


def test_it_is_run_and_read(accuracy: ModuleType, fake_ncu: Callable[[str], None]) -> None:
    names = [case.name for case in accuracy.CASES if case.lone]
    lines = [("boundary", "1,000", "ns"), ("k", "2,000", "ns")] * (accuracy.NCU_CALLS * len(names))
    fake_ncu(f"log.write({csv_of(*lines)!r})\nassert sys.argv[-2:] == ['--child', 'ncu'], sys.argv")
    assert accuracy.by_ncu() == {name: pytest.approx([2e-6] * accuracy.NCU_CALLS) for name in names}


def test_its_refusal_is_told(accuracy: ModuleType, fake_ncu: Callable[[str], None]) -> None:
    fake_ncu("log.write('==PROF== Connected\\n==ERROR== ERR_NVGPUCTRPERM - no permission\\n'); sys.exit(9)")
    with pytest.raises(AiperfError, match=r"^ERR_NVGPUCTRPERM - no permission \(exit code 9\)$"):
        accuracy.by_ncu()
    fake_ncu("print('a traceback'); print('ValueError: broken'); sys.exit(1)")
    with pytest.raises(AiperfError, match=r"^ValueError: broken \(exit code 1\)$"):
        accuracy.by_ncu()


def test_it_is_not_waited_for_for_ever(
    accuracy: ModuleType, fake_ncu: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "NCU_LIMIT_S", 0.5)
    fake_ncu("time.sleep(60)")
    start = time.monotonic()
    with pytest.raises(AiperfError, match=r"^it took longer than 0.5 s$"):
        accuracy.by_ncu()
    assert time.monotonic() - start < 30


def test_where_it_is_not_installed(accuracy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "_find_ncu", lambda: None)
    with pytest.raises(AiperfError, match=r"^no ncu on the path, in \$CUDA_HOME, /usr/local/cuda or /opt/nvidia/nsi"):
        accuracy.by_ncu()


# --- the course of a measurement, without a GPU


class FakeDevice:
    """Each call takes what it returns, in seconds, and events add two microseconds."""

    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1

    def make_ready(self) -> None:
        assert self.flushes, "the cache is flushed before a call is timed"

    def time(self, call: Callable[[], float], clock: str) -> Any:
        assert clock == "device"
        return SimpleNamespace(device_s=call() + 2e-6, hidden=True)


@pytest.fixture
def without_gpu(accuracy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Two cases, one of which CUPTI cannot trace."""

    def audit(_: Any, call: Callable[[], float], calls: int, *, flush: bool) -> dict[str, Any]:
        assert flush
        if call() > 1e-3:
            raise SkipError("CUPTI recorded no work for a call")
        return {"span_s": [call()] * calls, "event_s": [call() + 2.1e-6] * calls, "work": [{"count": 1}, {"count": 2}]}

    cases = (accuracy.Case("short", lambda: lambda: 1e-5, lone=True), accuracy.Case("long", lambda: lambda: 1e-2))
    monkeypatch.setattr(accuracy, "CASES", cases)
    monkeypatch.setattr(accuracy, "WARM_S", 0.0)
    monkeypatch.setattr(accuracy, "CudaDevice", FakeDevice)
    monkeypatch.setattr(accuracy, "audit", audit)
    monkeypatch.setattr(accuracy, "by_timer", lambda call: call())
    monkeypatch.setattr(accuracy, "by_events", lambda call, calls: [call()] * calls)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return accuracy


def test_every_case_is_timed_by_every_clock(without_gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_gpu, "by_do_bench", lambda call: call() * 2)
    notes: dict[str, str] = {}
    short, long = without_gpu.measure(6, 2e-6, notes)
    assert notes == {}
    assert (short.name, short.aiperf_s, short.overhead_s) == ("short", pytest.approx(1e-5), 2e-6)
    assert (len(short.samples_s), len(short.span_s), len(short.plain_events_s), short.pieces) == (6, 6, 6, 3)
    assert short.same_calls_s == pytest.approx(1.01e-5)
    assert (short.do_bench_s, short.timer_s) == (2e-5, 1e-5)
    assert (long.cupti_s, long.problem) == (None, "CUPTI recorded no work for a call")


def test_where_do_bench_fails_it_is_asked_once_and_the_others_go_on(
    without_gpu: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fail(call: Any) -> float:
        asked.append(call)
        raise ImportError("No module named 'triton'")

    monkeypatch.setattr(without_gpu, "by_do_bench", fail)
    notes: dict[str, str] = {}
    rows = without_gpu.measure(5, 2e-6, notes)
    assert notes == {"do_bench": "No module named 'triton'"}
    assert [(one.do_bench_s, one.timer_s) for one in rows] == [(None, 1e-5), (None, 1e-2)]
    assert len(asked) == 1


def test_the_command_prints_writes_and_ends_with_1_for_a_miss(
    without_gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> dict[str, list[float]]:
        raise AiperfError("ERR_NVGPUCTRPERM (exit code 9)")

    monkeypatch.setattr(without_gpu, "by_do_bench", lambda call: call())
    monkeypatch.setattr(without_gpu, "by_ncu", refused)
    monkeypatch.setattr(without_gpu, "event_overhead", lambda: 2e-6)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100 << 30, 141 << 30))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(without_gpu.probe, "nvidia", lambda: SimpleNamespace(driver="580.1"))
    out = tmp_path / "found.json"
    assert without_gpu.main(["--out", str(out), "--calls", "5"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"NVIDIA H200, driver 580.1, torch {torch.__version__}, events cost 2.00 us\n")
    assert "ncu: not run: ERR_NVGPUCTRPERM (exit code 9)\n" in printed
    assert "1 of 2 cases within 5% or 0.5 us of CUPTI\n" in printed
    assert json.loads(out.read_text())["missed"] == ["long"]

    monkeypatch.setattr(without_gpu, "CASES", without_gpu.CASES[:1])
    assert without_gpu.main(["--calls", "5", "--ncu", "off"]) == 0
    assert "ncu: not run: --ncu off\n" in capsys.readouterr().out
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (3 << 29, 141 << 30))
    assert without_gpu.main([]) == 1
    assert capsys.readouterr().err == "takes 20 GiB of GPU memory; 1.5 GiB are free\n"


def test_without_a_gpu_it_says_so_and_ends_with_2(
    accuracy: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert accuracy.main([]) == 2
    assert capsys.readouterr().err == f"accuracy.py needs an NVIDIA GPU; torch {torch.__version__} finds none.\n"


def test_a_failed_process_is_told_by_its_last_line(accuracy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(AiperfError) as error:
        accuracy.event_overhead()
    assert str(error.value) == (
        "the process that measures what events cost failed: "
        f"accuracy.py needs an NVIDIA GPU; torch {torch.__version__} finds none."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--calls", "4"], "argument --calls: takes a number from 5 on; got '4'"),
        (["--out", "nowhere/x.json"], "--out nowhere/x.json: there is no folder 'nowhere'"),
    ],
)
def test_wrong_arguments(
    accuracy: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as end:
        accuracy.main(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_names_are_told_apart_and_streams_come_last(accuracy: ModuleType) -> None:
    names = [case.name for case in accuracy.CASES]
    assert len(set(names)) == len(names)
    with_streams = [accuracy._on_streams, accuracy._not_joined, accuracy._graph]
    made_by = [getattr(case.make, "func", case.make) in with_streams for case in accuracy.CASES]
    assert made_by == sorted(made_by)
    assert True in made_by


def test_its_kernels_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
    monkeypatch.setenv("AIPERF_CACHE_DIR", os.fspath(tmp_path))
    source = CudaSource(SCRIPT.with_suffix(".cu"))
    assert source.names() == ("nothing", "boundary")
    assert source.compile("sm_90").startswith(b"\x7fELF")
