"""Simulated targets: samples are seeds, paired between implementations; the virtual time counts, and no clock does."""

from collections.abc import Callable

import pytest
from attrs import evolve

from aiperf_core import Benchmark, Cost
from aiperf_core.errors import BenchmarkError
from aiperf_core.measurements import Samples
from aiperf_core.results import structure
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.simulated import LEAST_SEEDS, Simulated
from aiperf_core.stats.intervals import MIN_PASSES
from aiperf_core.stats.judge import judge
from aiperf_core.stats.standing import rules_of

Measure = Callable[..., object]


@pytest.fixture(scope="module")
def result(shared_measure: Measure) -> TargetResult:
    found = shared_measure("simulating")
    assert isinstance(found, TargetResult), found
    return found


@pytest.fixture(scope="module")
def rows(result: TargetResult) -> dict[str, Row]:
    return {row.name: row for row in result.rows}


def test_a_sample_is_a_seed_and_its_time_is_virtual(result: TargetResult, rows: dict[str, Row]) -> None:
    assert (result.clock, result.stopped) == ("simulated", "all seeds simulated")
    assert result.simulated == Simulated("done_s", 8)
    one, two = rows["one_machine"], rows["two_machines"]
    for row in (one, two):
        taken: Samples = row.samples
        assert len(taken.simulated_s) == 8
        assert set(taken.wall_s) == set(taken.device_s) == {None}
        assert all(seconds is not None and seconds == int(seconds) for seconds in taken.simulated_s)
        assert taken.step == list(range(8))
    assert len({*one.samples.simulated_s}) > 1, "every seed draws other jobs"
    pairs = zip(one.samples.simulated_s, two.samples.simulated_s, strict=True)
    assert all(2 * (half or 0) >= (whole or 0) for whole, half in pairs), "both have the jobs of the same seed"


def test_the_ratio_is_paired_and_the_optimum_is_the_bound(rows: dict[str, Row]) -> None:
    two = rows["two_machines"]
    assert two.verdict is Verdict.FASTER, two.reason
    assert two.speedup is not None
    assert 1.4 < two.speedup.low <= two.speedup.value <= 2.0, "every seed draws other jobs"
    assert two.time_s is not None
    assert two.speed_of_light is not None
    assert (two.speed_of_light.bound, two.speed_of_light.time_s) == ("optimum", 6.0)
    assert two.speed_of_light.fraction == pytest.approx(6.0 / two.time_s.value)
    assert (two.wall_s, two.bytes_per_s) == (None, None)


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("lost", Verdict.INVALID, "'done_s' is nan; accepted are virtual seconds above 0"),
        ("silent", Verdict.INVALID, "the output has no 'done_s'; accepted is a dict with the answer and that time"),
        ("failing", Verdict.FAILED, "RuntimeError: no machine is left"),
        ("cheating", Verdict.INVALID, "work"),
    ],
)
def test_what_is_no_virtual_time_is_one_sentence(
    name: str, verdict: Verdict, reason: str, rows: dict[str, Row]
) -> None:
    row = rows[name]
    assert row.verdict is verdict
    assert row.reason is not None
    assert reason in row.reason
    assert row.speedup is None


def test_other_seeds_than_the_baseline_s_are_not_compared(result: TargetResult) -> None:
    other = next(row for row in result.rows if row.name == "two_machines")
    moved = evolve(other, samples=evolve(other.samples, step=[step + 3 for step in other.samples.step]))
    rows = judge([result.rows[0], moved], rules_of(result, None))
    assert rows[1].verdict is Verdict.INCONCLUSIVE
    assert rows[1].reason == (
        "it was simulated for 8 seeds, of which 5 are among the 8 of one_machine: both need the same"
    )


def test_several_rounds_share_the_seeds(shared_measure: Measure) -> None:
    found = shared_measure("simulating", "two_machines", tier="standard")
    assert isinstance(found, TargetResult), found
    assert found.rounds == 3
    assert {row.name: len(row.samples.step) for row in found.rows} == {
        "one_machine": 9, "two_machines": 9, "one_machine again": 9
    }  # fmt: skip
    control = found.rows[-1]
    assert control.samples.simulated_s == found.rows[0].samples.simulated_s


def test_the_fewest_seeds_have_an_interval() -> None:
    assert LEAST_SEEDS == MIN_PASSES


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"metric": "job_s", "seeds": 1}, "is simulated with seeds=1; accepted are whole numbers from 6"),
        ({"metric": "job_s", "seeds": 6.0}, "is simulated with seeds=6.0; accepted are whole numbers from 6"),
        ({"metric": "a job", "seeds": 20}, "is simulated with metric='a job'; accepted is a name, such as 'job_s'"),
    ],
)
def test_a_simulation_that_cannot_be_compared_is_refused(declared: dict[str, object], message: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Benchmark(goal="speed").simulated(**declared)  # type: ignore[arg-type]
    assert message in str(caught.value)
    with pytest.raises(JsonError):
        structure.structure(declared, Simulated)


@pytest.mark.parametrize(
    ("goal", "cost", "device", "message"),
    [
        ("memory", {"optimum_s": 1}, "cpu", "is simulated; accepted for that is a goal of time"),
        ("speed", {"flops": 1}, "cpu", "is simulated; its cost has Cost(optimum_s=..., tokens=...) and nothing else"),
        ("speed", {"optimum_s": 1}, "cuda", "is simulated; accepted is the device cpu, found cuda"),
    ],
)
def test_what_a_simulated_target_cannot_be(goal: str, cost: dict[str, float], device: str, message: str) -> None:
    bench = Benchmark(goal=goal)
    bench.simulated(metric="job_s")
    bench.workload(smoke={"n": 1})(lambda n: {})
    bench.reference(tolerance=lambda n: None)(lambda: 0)  # type: ignore[arg-type, return-value]
    bench.cost(lambda n: Cost(**cost))

    @bench.baseline(device=device, kind="naive")
    def plain() -> None: ...

    with pytest.raises(BenchmarkError) as caught:
        bench.check()
    assert message in str(caught.value)
