"""The end of a target's run: rows from observations, with ceilings that are measured again for a suspect."""

from attrs import evolve

from aiperf_core.harness.run.target_run import REMEASURED, judged
from aiperf_core.measurements import Ceilings, Samples
from aiperf_core.results import example
from aiperf_core.results.models import Observations, Verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.standing import rules_of

PASSES = 12
# A GiB read and a GiB written at 1 TB/s take 2.15 ms.
RESULT = evolve(example.result(), clock="wall", device="cpu", rows=[], clock_overhead_s=None)


def ceilings(bytes_per_s: float) -> Ceilings:
    return Ceilings("made up", "2026-01-01T00:00:00+00:00", bytes_per_s, bytes_per_s, bytes_per_s, {"fp32": 1e15})


def observed(name: str, role: str, time_s: float, place: int) -> Observations:
    times = [time_s * (1 + 0.002 * (number % 3 - 1)) for number in range(PASSES)]
    samples = Samples(
        round=[0] * PASSES,
        block=[2 * number + place for number in range(PASSES)],
        step=list(range(PASSES)),
        device_s=[None] * PASSES,
        wall_s=times,
        bracket_s=times,
        calls=[1] * PASSES,
        involuntary_switches=[0] * PASSES,
    )
    return Observations(name, role, "cpu", samples=samples)


OBSERVED = [observed("plain", "baseline", 5e-3, 0), observed("other", "variant", 1e-3, 1)]


def test_ceilings_are_measured_again_before_a_row_is_refused() -> None:
    found, asked = iter([1e12, 1.1e12, 3e12]), []

    def measure(again: bool) -> Ceilings:
        asked.append(again)
        return ceilings(next(found))

    plain, other = judged(RESULT, OBSERVED, measure).rows
    assert asked == [False, True, True]
    assert plain.verdict is Verdict.MEASURED
    assert other.verdict is Verdict.FASTER
    assert other.checked == []


def test_a_row_faster_than_light_keeps_its_finding_under_later_ceilings() -> None:
    asked: list[bool] = []

    def measure(again: bool) -> Ceilings:
        asked.append(again)
        return ceilings(1e12)

    result = judged(RESULT, OBSERVED, measure)
    assert len(asked) == 1 + REMEASURED
    assert result.rows[1].verdict is Verdict.INVALID
    assert [one.issue for one in result.rows[1].checked] == ["timing.faster_than_light"]
    assert judge(result.rows, rules_of(result, ceilings(9e12)))[1] == result.rows[1]
