"""A call that serves requests: latencies by the harness's clock, every answer judged, and the rules kept."""

import os
from pathlib import Path

import pytest

from aiperf_core.benchmark import Benchmark
from aiperf_core.candidate_format import AIPERF
from aiperf_core.errors import BenchmarkError, UsageError
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.render.notes import notes
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection

pytestmark = pytest.mark.quiet

TARGETS = Path(__file__).parent / "targets"
TARGET = InstalledTarget("tests.serving", "serving")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> TargetResult:
    logs = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
        with Planner(Options(device="cpu", size="smoke", budget_s=0.3), logs) as planner:
            plans, _ = planner.plan([Selection(TARGET)])
            result = planner.run(plans[0], lambda _, name: logs / f"{name}.log", Silent())
    assert isinstance(result, TargetResult), result
    return result


@pytest.fixture(scope="module")
def rows(result: TargetResult) -> dict[str, Row]:
    return {row.name: row for row in result.rows}


def test_latencies_stand_beside_the_time(rows: dict[str, Row]) -> None:
    for name in ("one_by_one", "late"):
        row = rows[name]
        assert row.verdict not in (Verdict.INVALID, Verdict.FAILED, Verdict.UNTRUSTED), row.reason
        assert row.judgement is not None
        assert 0 < row.beside["latency_p50_s"] <= row.beside["latency_p90_s"] <= row.beside["latency_p99_s"]
        assert row.time_s is not None
        # The last request arrives then.
        assert row.time_s.value >= 0.02
    # Of those that come every 2.5 ms and take 4, each waits longer.
    assert rows["late"].beside["latency_p50_s"] > max(0.004, rows["one_by_one"].beside["latency_p50_s"])
    assert rows["late"].beside["goodput_per_s"] == 0
    assert rows["one_by_one"].beside["goodput_per_s"] > 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("forgets", "8 of 9 requests have no answer"),
        ("foresees", "was answered before it arrived"),
        ("wrong", "sum: 1 of 9 elements differ"),
    ],
)
def test_who_breaks_the_rules_is_not_believed(rows: dict[str, Row], name: str, reason: str) -> None:
    row = rows[name]
    assert row.verdict is Verdict.INVALID
    assert row.reason is not None
    assert reason in row.reason


def test_the_figures_are_told(result: TargetResult) -> None:
    told = [note for label, note in notes(result) if label == "latency"]
    assert [one.split(" % ")[0] for one in told] == ["one_by_one 50", "late 50"]
    assert "; in time " in told[0]


def test_a_candidate_is_given_no_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
    text = "class Implementation:\n    def run(self, tokens):\n        return tokens\n"
    source = CandidateSource(tmp_path / "candidate.py", text, "0", AIPERF)
    with (
        Planner(Options(device="cpu", size="smoke", candidate=source), tmp_path) as planner,
        pytest.raises(UsageError) as caught,
    ):
        planner.plan([Selection(TARGET)])
    assert str(caught.value) == (
        "'tests.serving' serves requests one by one; a candidate receives all inputs at once. "
        "Choose another target: aiperf list"
    )


def test_a_trace_needs_a_deadline_and_the_wall_clock() -> None:
    with pytest.raises(BenchmarkError, match=r"preset 'smoke' needs the size 'deadline_s', above 0, and one process\."):
        Benchmark(goal="speed", clock="wall").workload(served="x", smoke={"n": 1})(lambda n: {})
    with pytest.raises(BenchmarkError, match=r"accepted for that is Benchmark\(clock='wall'\), not deferred\."):
        Benchmark(goal="speed").workload(served="x", smoke={"deadline_s": 1.0})(lambda deadline_s: {})
