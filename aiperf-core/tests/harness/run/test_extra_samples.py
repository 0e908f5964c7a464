"""Batches of untrusted code, with the treatment that it has on a GPU, on a processor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.run import extra_samples
from aiperf_core.harness.run.rounds import Rounds
from aiperf_core.harness.run.setup import Setup, Trust
from aiperf_core.results.models import Row, TargetResult, Verdict

CANDIDATE = """
import os, time

class Implementation:
    calls = 0

    def prepare(self, pair):
        self.place = pair["left"].data_ptr()

    def run(self, pair, memory, shift, weight, scale):
        self.calls += 1
        assert pair["left"].data_ptr() == self.place, "the inputs moved"
        total = pair["left"] * weight * scale + pair["right"][0] + shift
        memory.add_(total)
        IN_A_BATCH
        return {"total": total, "memory": memory, "sum": float(total.double().sum())}
"""
# A batch has calls that follow each other at once; a sample of one call has none.
NOTED = "now = time.monotonic(); rushed = now - getattr(self, 'last', 0.0) < 5e-4; self.last = now; "
Judge = Callable[..., list[Row]]


@pytest.fixture
def judge(measure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The rows of the baseline and of a candidate that executes a line in its calls."""
    monkeypatch.setattr(Setup, "trust", property(lambda self: Trust(untrusted=True)))
    monkeypatch.setattr(Setup, "in_batches", property(lambda self: self.guards("clocks_agree")))
    # Other calls without a pause would not be told from those of a batch.
    monkeypatch.setattr(Rounds, "_run_steadily", lambda *_: None)
    monkeypatch.setattr(extra_samples, "BATCHES", 4)
    monkeypatch.setattr(extra_samples, "MOST_CALLS", 20)

    def judge(line: str = "pass", **options: Any) -> list[Row]:
        file = tmp_path / "candidate.py"
        file.write_text(CANDIDATE.replace("IN_A_BATCH", line))
        result = measure("features", candidate=check_candidate(file, AIPERF), **options)
        assert isinstance(result, TargetResult), result
        return result.rows

    return judge


def test_both_sides_make_calls_in_a_row_at_the_addresses_that_they_know(judge: Judge) -> None:
    baseline, row = judge()
    assert row.verdict not in (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED), row.reason
    for one in (baseline, row):
        assert [each.calls for each in one.batches] == [20] * 4
        assert all(0 < each.call_s < 1 for each in one.batches)


def test_time_in_a_call_is_in_the_batches(judge: Judge) -> None:
    baseline, row = judge("time.sleep(0.002)")
    assert min(one.call_s for one in row.batches) >= 0.002
    assert min(one.call_s for one in baseline.batches) < 0.002


def test_every_output_of_a_batch_is_compared(judge: Judge) -> None:
    wrong = f"{NOTED}total = total * 2 if rushed and self.calls % 20 == 19 else total"
    _, row = judge(wrong, off=frozenset({"judged_output"}))
    assert row.verdict is Verdict.INVALID
    assert row.reason is not None
    assert row.reason.startswith("in calls without a pause:")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{NOTED}rushed and self.calls % 20 == 19 and os._exit(7)", "its process exited with status 7 during 'batch'"),
        (f"{NOTED}total = total[:2] if rushed and self.calls % 20 == 19 else total", "total"),
    ],
)
def test_a_candidate_that_fails_in_a_batch_costs_its_own_row(judge: Judge, line: str, said: str) -> None:
    baseline, row = judge(line)
    assert row.verdict in (Verdict.FAILED, Verdict.INVALID)
    assert said in str(row.reason)
    assert baseline.verdict is Verdict.MEASURED


def test_without_the_guard_no_batch_is_taken(judge: Judge) -> None:
    assert [one.batches for one in judge(off=frozenset({"clocks_agree"}))] == [[], []]
