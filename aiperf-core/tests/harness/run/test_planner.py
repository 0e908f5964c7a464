"""Planning and running whole targets."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.errors import UsageError
from aiperf_core.harness.processes import child
from aiperf_core.harness.run import extra_samples, planner, sampler
from aiperf_core.harness.run.conditions import Conditions
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.progress import Progress
from aiperf_core.measurements import DeviceState
from aiperf_core.results.exit_codes import exit_code
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection

pytestmark = pytest.mark.quiet

Measure = Callable[..., Any]

TARGETS = Path(__file__).parents[1] / "targets"


def rows_of(result: object) -> dict[str, Row]:
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}


def test_everything_that_the_api_offers_runs(measure: Measure) -> None:
    result = measure("features", size="cpu")
    rows = rows_of(result)
    assert (result.goal, result.clock, result.cache, result.device) == ("throughput", "wall", "warm", "cpu")
    assert result.problem.params == {"n": 31, "scale": 0.5}
    assert [row.role for row in result.rows] == ["baseline", *["variant"] * 5, "yardstick"]
    assert rows["plain"].verdict is Verdict.MEASURED
    assert rows["library"].verdict is Verdict.MEASURED
    assert rows["scaled"].speedup is not None
    assert rows["scaled"].prepare_s is not None
    assert rows["scaled_again"].step_speedup is not None
    assert rows["presumptuous"].verdict is Verdict.INVALID
    assert [one.issue for one in rows["presumptuous"].findings] == ["output.wrong_values"]


def test_a_lossy_variant_shows_its_quality_and_keeps_its_budget(measure: Measure) -> None:
    rows = rows_of(measure("features", "halved", "halved_too_far"))
    quality = rows["halved"].quality
    assert quality is not None
    assert quality.metric == "worst_total"
    assert 0 < quality.value <= 0.1
    assert rows["halved"].speedup is not None
    assert rows["halved_too_far"].verdict is Verdict.INVALID
    assert rows["halved_too_far"].findings[0].issue == "output.quality_below_budget"
    assert "its budget is 1e-06" in str(rows["halved_too_far"].reason)


def test_a_rung_brings_the_rung_below_it(measure: Measure) -> None:
    assert list(rows_of(measure("features", "scaled_again"))) == ["plain", "scaled", "scaled_again"]


def test_sizes_can_be_set(measure: Measure) -> None:
    assert measure("features", "scaled", params={"n": 13.0, "scale": 2.0}).problem.params == {"n": 13, "scale": 2.0}


def test_blocks_alternate_in_the_order_abba(measure: Measure) -> None:
    order = measure("features", "scaled").order
    assert len(order) >= 2 * sampler.MIN_PASSES
    assert order[:8] == ["plain", "scaled", "scaled", "plain"] * 2


def test_a_standard_run_has_rounds_and_controls(measure: Measure) -> None:
    result = measure("features", "scaled", tier="standard", budget_s=0.3)
    rows = rows_of(result)
    assert (result.tier, result.rounds) == ("standard", 3)
    assert list(rows) == ["plain", "scaled", "plain again"]
    control = rows["plain again"]
    assert (control.role, control.verdict) == ("control", Verdict.MEASURED)
    assert control.speedup is not None
    for row in result.rows:
        assert sorted(set(row.samples.round)) == [0, 1, 2]
        assert len(row.isolated_samples_s) >= 3 * extra_samples.MIN_ISOLATED
        assert row.isolated_s is not None
        assert row.conditions is not None
        assert row.conditions.readings == len(set(row.samples.block))
    assert all(row.energy or row.no_energy for row in result.rows if row.role != "control")


@pytest.mark.parametrize(
    ("phase", "times"),
    [("setup: start workers", 2), ("warm-up", 1), ("block", 9), ("block", 30), ("verification: sample alone", 2)],
)
def test_ctrl_c_at_any_moment_is_held_against_nobody(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, phase: str, times: int
) -> None:
    receive, begun = child.Child._receive, []

    def interrupted(self: child.Child, deadline: float) -> Any:
        if begun.count(phase) == times:
            begun.append(phase)  # once is enough
            raise KeyboardInterrupt
        return receive(self, deadline)

    def block(self: Progress, one: Any) -> None:
        begun.append("block")

    monkeypatch.setattr(Silent, "phase", lambda _, name, __="": begun.append(name))
    monkeypatch.setattr(Progress, "report", block)
    monkeypatch.setattr(child.Child, "_receive", interrupted)
    result = measure("features", "scaled", tier="standard", budget_s=0.3)
    rows = rows_of(result)
    assert (result.complete, result.stopped) == (False, "interrupted")
    accused = [str(row.reason) for row in rows.values() if row.verdict in ("FAILED", "INVALID", "UNTRUSTED")]
    # Cut short before there were enough passes, figures allow no statement; that is said of the row.
    assert all(reason.startswith("passes taken") for reason in accused), accused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "huge"}, "'tests.features' has no size 'huge'; it has smoke, cpu."),
        ({"params": {"m": 3.0}}, "'tests.features' has no size parameter 'm'; it has n, scale."),
        ({"params": {"n": 3.5}}, "'tests.features' takes a whole number for n; --set gave 3.5."),
    ],
)
def test_sizes_that_the_workload_does_not_take(measure: Measure, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        measure("features", **options)
    assert str(caught.value) == message


def test_more_implementations_than_a_result_holds(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "MOST_ROWS", 2)
    with pytest.raises(UsageError) as caught:
        measure("features")
    assert re.fullmatch(
        r"'tests\.features' has \d+ implementations; a result holds at most 2\. Split the target\.", str(caught.value)
    )


def test_an_implementation_that_is_not_there(measure: Measure) -> None:
    with pytest.raises(UsageError) as caught:
        measure("features", "scaledd")
    assert str(caught.value) == (
        "'tests.features' has no implementation named 'scaledd'; it has halved, halved_too_far, library, plain, "
        "presumptuous, scaled, scaled_again."
    )


def test_a_device_that_is_not_there(measure: Measure) -> None:
    with pytest.raises(UsageError) as caught:
        measure("features", device="cuda")
    assert str(caught.value) == (
        "The device 'cuda' was requested, but this machine has none: the tests hide it. "
        "Leave out --device to run on the CPU; see what is missing with: aiperf doctor"
    )


def test_a_benchmark_that_cannot_be_imported_is_named(measure: Measure) -> None:
    assert measure("broken_import") == SkippedTarget(
        "tests.broken_import",
        Verdict.FAILED,
        "'tests.broken_import' cannot be used: importing 'broken_import' raised ValueError at "
        f"{TARGETS / 'broken_import.py'}:3: no benchmark today",
    )


def test_a_benchmark_that_ends_its_process_at_import_is_named(measure: Measure) -> None:
    assert measure("exits_at_import") == SkippedTarget(
        "tests.exits_at_import",
        Verdict.FAILED,
        "'tests.exits_at_import' cannot be used: importing it its process exited with status 7 during 'describe', "
        "without a result",
    )


def test_a_workload_at_fault_fails_the_target(measure: Measure) -> None:
    result = measure("broken_workload")
    assert result == SkippedTarget(
        "tests.broken_workload",
        Verdict.FAILED,
        "'tests.broken_workload' could not be set up at n=8: raised ZeroDivisionError: the reference is at fault",
    )


def test_exit_codes(measure: Measure) -> None:
    good = measure("features", "scaled")
    invalid = measure("features", "presumptuous")
    failed = SkippedTarget("a.b", Verdict.FAILED, "reason")
    skipped = SkippedTarget("a.b", Verdict.SKIPPED, "reason")
    assert exit_code([good], interrupted=False) == 0
    assert exit_code([good, skipped], interrupted=False) == 0
    assert exit_code([good, failed], interrupted=False) == 1
    assert exit_code([good, failed, invalid], interrupted=False) == 3
    assert exit_code([skipped], interrupted=False) == 1
    assert exit_code([good], interrupted=True) == 130


def test_what_a_process_changed_in_an_earlier_round_counts(measure: Measure) -> None:
    rows = rows_of(measure("first_round", tier="standard"))
    assert [one.issue for one in rows["only_at_first"].findings if one.severity == "invalid"] == ["tamper.statistics"]
    assert rows["only_at_first"].verdict is Verdict.INVALID
    for honest in ("doubled", "added"):
        assert [one for one in rows[honest].findings if one.severity == "invalid"] == []


def test_at_least_so_many_samples_are_taken_of_each(measure: Measure) -> None:
    few, many = measure("features", "scaled"), measure("features", "scaled", min_samples=150)
    assert all(len(row.samples.step) < 150 for row in few.rows)
    assert all(len(row.samples.step) >= 150 for row in many.rows)
    assert many.stopped in ("sampling budget spent", "intervals narrow enough")


def test_the_parts_of_the_overhead_are_the_time_of_sampling(measure: Measure) -> None:
    result = measure("features", "scaled")
    spent = result.overhead
    parts = spent.timed_s + spent.refresh_s + spent.flush_s + spent.verification_s + spent.stopping_s
    assert parts + spent.messages_s + spent.other_s == pytest.approx(spent.sampling_s)
    assert min(spent.setup_s, spent.warmup_s, spent.refresh_s, spent.verification_s, spent.messages_s) > 0
    assert spent.setup_s + spent.warmup_s + spent.sampling_s + spent.checks_s <= result.wall_s


def test_a_run_says_how_long_the_next_takes(
    measure: Measure, shared_planner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    # Not every machine shows clocks and temperatures.
    device = DeviceState(clock_hz=2e9, temperature_c=50.0, throttled=("cpu_quota",))
    monkeypatch.setattr(Conditions, "state", property(lambda self: device if self._newest else None))

    class Telling(Silent):
        def phase(self, text: str, implementation: str | None = None) -> None:
            told.append(text)

        def progress(self, state: Any) -> None:
            told.append(state)

    result = measure("features", "scaled")
    plans, _ = shared_planner.plan([Selection(InstalledTarget("tests.features", "features"), frozenset({"scaled"}))])
    seconds, known = shared_planner.estimate_s(plans[0])
    assert known
    assert 0.2 * result.wall_s < seconds < 3 * result.wall_s
    shared_planner.run(plans[0], lambda _, name: shared_planner.log_folder / f"{name}.log", Telling())
    states = [one for one in told if not isinstance(one, str)]
    phases = [one.partition(":")[0] for one in told if isinstance(one, str)]
    assert list(dict.fromkeys(phases)) == ["setup", "warm-up", "sampling", "verification"]
    assert states[0].seconds_left > states[-1].seconds_left
    assert all(0 <= one.share <= 1 for one in states)
    assert (states[0].clock_hz, states[0].temperature_c, states[0].throttled) == (None, None, None)
    blocks = [one.block for one in states]
    assert blocks == sorted(blocks)
    assert blocks[0] == 0 < blocks[-1]
    assert {one.rounds for one in states} == {shared_planner.options.rounds}
    assert {one.wanted for one in states} == {shared_planner.options.stopping.width}
    last = states[-1]
    assert last.round == last.rounds
    assert (last.clock_hz, last.temperature_c, last.throttled) == (2e9, 50.0, ("cpu_quota",))
