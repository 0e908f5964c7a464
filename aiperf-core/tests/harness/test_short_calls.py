"""Calls that are too short for the clock are timed in a row, or refused."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from aiperf_core.harness.run import sampler
from aiperf_core.results.models import TargetResult, Verdict

pytestmark = pytest.mark.quiet

Measure = Callable[..., Any]


def test_short_calls_are_timed_in_a_row(measure: Measure) -> None:
    result = measure("short_warm", budget_s=1.0)
    assert isinstance(result, TargetResult), result
    rows = {row.name: row for row in result.rows}
    short, longer, alone = rows["returned"], rows["returned_late"], rows["copied_often"]
    assert result.clock_overhead_s is not None
    for row in (short, longer):
        (calls,) = set(row.samples.calls)
        assert calls >= 4
        # A sample is long beside what timing it costs, and the figures are those of a call.
        assert row.samples.wall_s[0] > 5 * result.clock_overhead_s
        assert row.time_s is not None
        assert row.time_s.value < 5e-6
    assert set(alone.samples.calls) == {1}
    assert longer.verdict is Verdict.SLOWER
    assert longer.speedup is not None
    assert 0.02 < longer.speedup.value < 0.5
    assert short.steady
    assert all(run.calls > 100 for run in short.steady)


def test_all_share_the_processor_that_the_workload_asks_for(measure: Measure) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors to tell pinning from having no choice")
    result = measure("pinned")
    assert not [row.reason for row in result.rows if row.verdict in (Verdict.INVALID, Verdict.FAILED)]
    assert all(row.judgement and row.judgement.samples for row in result.rows)


def test_a_short_call_that_cannot_be_repeated_is_refused(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    # So that the call is short beside the clock on every machine.
    monkeypatch.setattr(sampler, "LEAST_COSTS", 1e6)
    monkeypatch.setattr(sampler, "NOTED_COST", 1e-6)
    monkeypatch.setattr(sampler, "MOST_COST", 1e-6)
    result = measure("short_cold")
    row = result.rows[0]
    assert row.verdict is Verdict.UNTRUSTED
    assert [one.issue for one in row.findings] == ["timing.timer_granularity"]
    assert "make the workload larger, or declare cache='warm'" in str(row.reason)
    assert row.speedup is None


def test_a_short_call_that_can_just_be_timed_is_warned_of(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "LEAST_COSTS", 1e6)
    monkeypatch.setattr(sampler, "NOTED_COST", 1e-6)
    row = measure("short_cold").rows[0]
    assert row.verdict is Verdict.MEASURED
    assert ("timing.timer_granularity", "warning") in [(one.issue, one.severity) for one in row.findings]


def test_more_threads_than_there_are_processors(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set())
    skipped = measure("short_warm")
    assert skipped.verdict is Verdict.SKIPPED
    assert skipped.reason == "needs 1 processors (0 are usable here)"
