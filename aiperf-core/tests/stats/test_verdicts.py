"""What is said of rows, from samples with known answers."""

from collections.abc import Sequence

import pytest
from attrs import asdict, evolve

from aiperf_core import Cost
from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.measurements import Audit, Ceilings, Memory, Rank, Reading
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats.verdicts import LEAST_BYTES, Scoring

PASSES = 12
MIB = 1 << 20
# 8 MB at 1 GB/s: 8 ms.
COST = asdict(Cost(bytes_read=4e6, bytes_written=4e6, flops=1e6)) | {"world_size": 1, "nodes": 1}


def ceilings(bytes_per_s: float) -> Ceilings:
    return Ceilings(
        device="made up",
        measured="2026-01-01T00:00:00+00:00",
        copy_bytes_per_s=bytes_per_s,
        read_bytes_per_s=bytes_per_s,
        write_bytes_per_s=bytes_per_s,
        flop_per_s={"fp32": 1e12},
    )


def implementation(name: str, role: str, times_s: Sequence[float], place: int, rows: int) -> ImplementationRun:
    one = ImplementationRun(DescribedImplementation(name, role, "cpu", "x.py:1"), name, calls=1)
    nothing = {
        "device_s": None,
        "hidden": False,
        "voluntary_switches": 0,
        "involuntary_switches": 0,
        "answered_s": 0.0,
        "begun_s": 0.0,
        "replied_s": None,
        "ahead_s": None,
        "stopped_s": None,
    }
    for number, time in enumerate(times_s):
        sample = {**nothing, "wall_s": time, "cpu_s": time, "bracket_s": time}
        one.record((0, number * rows + place, number), sample, judged=False)
    return one


def noisy(time_s: float, noise: float = 0.002) -> list[float]:
    return [time_s * (1 + noise * (-1) ** number * (number % 3)) for number in range(PASSES)]


def scored(*entries: tuple[str, str, list[float]], measured: Sequence[float] = (1e9,)) -> list[Row]:
    """Score rows; `measured` are the bandwidths that measuring the ceilings gives, one time after the other."""
    observed = [implementation(*entry, place, len(entries)) for place, entry in enumerate(entries)]
    found = list(measured)

    def measure(again: bool) -> Ceilings:
        if again and len(found) > 1:
            found.pop(0)
        return ceilings(found[0])

    return Scoring(observed, "wall", "cold", COST, "bit-exact", 0.01, measure).rows()


BASELINE = ("plain", "baseline", noisy(0.020))


@pytest.mark.parametrize(
    ("time_s", "said"),
    [(0.010, Verdict.FASTER), (0.040, Verdict.SLOWER), (0.0201, Verdict.SAME)],
)
def test_a_variant_is_compared_with_the_baseline(time_s: float, said: Verdict) -> None:
    plain, variant = scored(BASELINE, ("other", "variant", noisy(time_s)))
    assert plain.verdict is Verdict.MEASURED
    assert plain.speedup is None
    assert variant.verdict is said
    assert variant.speedup is not None
    assert variant.speedup.low <= 0.020 / time_s <= variant.speedup.high


def of_memory(ours: int | None, *, device: str = "cuda", control: int | None = None, time_s: float = 0.040) -> Row:
    """A variant whose peak is `ours`, beside a baseline with a peak of 100 MiB, where memory is the goal."""
    entries = [BASELINE, ("other", "variant", noisy(time_s)), ("again", "control", noisy(0.020))]
    observed = [implementation(*one, place, 3) for place, one in enumerate(entries)]
    for one, peak in zip(observed, (100 * MIB, ours, control or 100 * MIB), strict=True):
        one.declared = evolve(one.declared, device=device)
        one.memory = None if peak is None else Memory(peak_bytes=peak)
    rows = Scoring(observed, "wall", "cold", COST, "bit-exact", 0.01, lambda _: None, goal="memory").rows()
    assert rows[0].verdict is Verdict.MEASURED
    assert rows[0].memory_gain is None
    return rows[1]


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (25 * MIB, Verdict.SMALLER),
        (98 * MIB, Verdict.SMALLER),
        (100 * MIB - 1, Verdict.SAME),
        (101 * MIB, Verdict.SAME),
        (102 * MIB, Verdict.LARGER),
    ],
)
def test_where_memory_is_the_goal_its_peak_decides(ours: int, said: Verdict) -> None:
    row = of_memory(ours)
    assert row.verdict is said
    assert row.memory_gain == pytest.approx(100 * MIB / ours)
    assert row.speedup is not None
    assert row.speedup.high < 1, "its time is told all the same"


def test_a_gain_of_memory_is_not_within_what_the_baseline_differs_from_itself() -> None:
    row = of_memory(97 * MIB, control=95 * MIB)
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.reason == ("the difference of 3.1% is not above the A/A difference of the baseline's peak, 5.3%")


def test_pages_of_the_host_are_no_gain_of_memory() -> None:
    assert of_memory(100 * MIB - LEAST_BYTES + 1, device="cpu").verdict is Verdict.SAME
    assert of_memory(97 * MIB, device="cpu").verdict is Verdict.SMALLER


@pytest.mark.parametrize("ours", [None, 0])
def test_memory_that_nobody_saw_proves_nothing(ours: int | None) -> None:
    row = of_memory(ours)
    assert (row.verdict, row.memory_gain) == (Verdict.INCONCLUSIVE, None)
    assert row.reason == "its peak memory, or that of the baseline, was not measured"


def test_a_row_has_the_mechanisms_of_its_declaration() -> None:
    declared = DescribedImplementation("fast", "variant", "cpu", "x.py:1", mechanisms=["tiling", "fusion"])
    base, one = (implementation(name, "variant", noisy(0.02), place, 2) for place, name in enumerate(("base", "fast")))
    one.declared = declared
    scoring = Scoring([base, one], "wall", "cold", COST, "exact", 0.01, lambda _: None)
    assert [row.mechanisms for row in scoring.rows()] == [[], ["tiling", "fusion"]]


def test_a_fraction_of_light_and_rates() -> None:
    plain, _ = scored(BASELINE, ("other", "variant", noisy(0.010)))
    assert plain.speed_of_light is not None
    assert (plain.speed_of_light.bound, plain.speed_of_light.time_s) == ("memory", 0.008)
    assert plain.speed_of_light.fraction == pytest.approx(0.4, rel=0.01)
    assert plain.bytes_per_s == pytest.approx(8e6 / 0.020, rel=0.01)


def test_faster_than_light_is_invalid() -> None:
    plain, variant = scored(BASELINE, ("other", "variant", noisy(0.004)))
    assert variant.verdict is Verdict.INVALID
    assert (variant.speedup, variant.time_s, variant.speed_of_light) == (None, None, None)
    assert [one.issue for one in variant.findings] == ["timing.faster_than_light"]
    assert variant.reason == (
        "0.004 s is 2.00 times as fast as this machine's memory allows (0.008 s); the cost, the clock or the "
        "implementation is wrong"
    )
    assert plain.verdict is Verdict.MEASURED


def test_a_median_beyond_light_of_times_that_come_and_go_proves_nothing() -> None:
    comes_and_goes = [0.006, 0.010, 0.007, 0.006, 0.011, 0.007, 0.006, 0.012, 0.007, 0.006, 0.010, 0.007]
    _, variant = scored(BASELINE, ("other", "variant", comes_and_goes))
    assert variant.time_s is not None
    assert variant.time_s.value < 0.008 / 1.02 < variant.time_s.high
    assert variant.verdict is Verdict.FASTER


def test_the_ceiling_is_measured_again_before_a_row_is_refused() -> None:
    _, variant = scored(BASELINE, ("other", "variant", noisy(0.004)), measured=(1e9, 1.1e9, 3e9))
    assert variant.verdict is Verdict.FASTER
    assert variant.speed_of_light is not None
    assert variant.speed_of_light.fraction == pytest.approx(2 / 3, rel=0.01)


def test_a_gain_within_what_the_baseline_differs_from_itself_is_refused() -> None:
    variant = ("other", "variant", noisy(0.0190))
    steady, unsteady = ("plain again", "control", noisy(0.020)), ("plain again", "control", noisy(0.0215))
    assert scored(BASELINE, variant, steady)[1].verdict is Verdict.FASTER
    refused = scored(BASELINE, variant, unsteady)[1]
    assert refused.verdict is Verdict.INCONCLUSIVE
    assert refused.reason is not None
    assert refused.reason.startswith(
        "the difference of 5.3% is not above the A/A difference of the baseline here, up to "
    )


def test_without_a_trusted_baseline_nothing_is_compared() -> None:
    _, variant = scored(("plain", "baseline", noisy(0.001)), ("other", "variant", noisy(0.010)))
    assert variant.verdict is Verdict.INCONCLUSIVE
    assert variant.reason == "there is no trusted baseline to compare with (plain: INVALID)"
    assert variant.time_s is not None


def test_the_interval_of_a_time_begins_at_the_speed_of_light() -> None:
    wild = [0.009, 0.030, 0.009, 0.031, 0.0085, 0.029] * 2
    (row,) = scored(("plain", "baseline", wild))
    assert row.time_s is not None
    assert row.time_s.low == pytest.approx(0.008, rel=1e-6)
    (without,) = scored(("plain", "baseline", wild), measured=(1e12,))
    assert without.time_s is not None
    assert without.time_s.low < 0.008


def test_too_few_passes_are_said() -> None:
    _, variant = scored(("plain", "baseline", [0.020, 0.021]), ("other", "variant", [0.010, 0.010]))
    assert variant.verdict is Verdict.INCONCLUSIVE
    assert variant.reason == "too few passes for an interval; give it more time with --budget"


def test_each_rank_has_its_own_audit_and_the_state_of_its_own_device() -> None:
    one = implementation(*BASELINE, 0, 1)
    one.ranks = [Rank(rank=number, device=f"cuda:{number}", work_s=0.02) for number in range(2)]
    one.rank_audits = [Audit([time_s], [time_s], [], 0) for time_s in (0.018, 0.019)]
    one.readings = [Reading(at_s=0.0, throttled=())]
    one.rank_readings = {1: [Reading(at_s=0.0, throttled=("sw_thermal_slowdown",))]}
    (row,) = Scoring([one], "wall", "cold", COST, "bit-exact", 0.01, lambda _: None).rows()
    first, second = row.ranks
    assert (first.audit, first.conditions) == (one.rank_audits[0], None)
    assert second.audit == one.rank_audits[1]
    assert second.conditions is not None
    assert second.conditions.throttled == {"sw_thermal_slowdown": 1.0}
    assert [(each.issue, each.message.partition(":")[0]) for each in row.findings] == [
        ("environment.thermal_throttling", "rank 1")
    ]


def test_interference_is_warned_of() -> None:
    observed = [implementation(*BASELINE, 0, 1)]
    observed[0].isolated_samples_s = noisy(0.010)
    (row,) = Scoring(observed, "wall", "cold", COST, "bit-exact", 0.01, lambda _: None).rows()
    assert row.verdict is Verdict.MEASURED
    assert [(one.issue, one.severity) for one in row.findings] == [("timing.interference", "warning")]
    assert row.findings[0].message == "plain takes 100% more time in alternation with the others than alone"
    assert row.isolated_s is not None


@pytest.mark.parametrize(("begun_s", "said"), [(0.0, Verdict.INCONCLUSIVE), (None, Verdict.FASTER)])
def test_a_gain_by_its_own_clock_alone_is_doubted_of_who_is_not_trusted(begun_s: float | None, said: Verdict) -> None:
    plain, forged = implementation(*BASELINE, 0, 2), implementation("forged", "variant", noisy(0.010), 1, 2)
    forged.samples.bracket_s[:] = plain.samples.bracket_s
    forged.answered[:] = [evolve(each, begun_s=begun_s) for each in forged.answered]

    def again() -> Row:
        return Scoring([plain, forged], "wall", "cold", COST, "bit-exact", 0.01, lambda _: None).rows()[1]

    row = again()
    assert row.verdict is said
    if said is Verdict.INCONCLUSIVE:
        assert row.reason is not None
        assert row.reason.startswith("by its own clock a sample takes")
        assert [(one.issue, one.severity) for one in row.findings] == [("timing.clocks_disagree", "warning")]
        # A bundle has no answers, and its finding tells.
        forged.answered.clear()
        assert (again().verdict, again().reason) == (said, row.reason)
        assert len(row.findings) == 1
