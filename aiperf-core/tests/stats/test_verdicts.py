"""What is said of rows, from samples with known answers."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import asdict, evolve

from aiperf_core import Cost
from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.run.recorder import RankNotes, Recorder
from aiperf_core.measurements import Audit, Ceilings, Memory, Rank, Reading
from aiperf_core.results.models import Judging, Observations, Row, Sighting, Verdict
from aiperf_core.stats.conditions import summary
from aiperf_core.stats.decision import Shown
from aiperf_core.stats.intervals import verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.observations import Clocks, harness_s
from aiperf_core.stats.standing import Rules
from aiperf_core.stats.verdicts import LEAST_BYTES

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


def judged(observed: Sequence[Observations], found: Ceilings | None = None, **rules: Any) -> list[Row]:
    usual: dict[str, Any] = {"clock": "wall", "cache": "cold", "goal": "speed", "cost": COST, "floor": 0.01}
    usual |= {"clocks": Clocks(), "judging": Judging(), "complete": True, **rules}
    return judge(observed, Rules(ceilings=found, **usual))


def implementation(name: str, role: str, times_s: Sequence[float], place: int, rows: int) -> Observations:
    one = Recorder.of(DescribedImplementation(name, role, "cpu", "x.py:1"))
    for number, time in enumerate(times_s):
        sample = Sample(wall_s=time, cpu_s=time, bracket_s=time, begun_s=0.0)
        one.record((0, number * rows + place, number), sample, calls=1, judged=False)
    return one.facts


def noisy(time_s: float, noise: float = 0.002) -> list[float]:
    return [time_s * (1 + noise * (-1) ** number * (number % 3)) for number in range(PASSES)]


def scored(*entries: tuple[str, str, list[float]], bytes_per_s: float = 1e9) -> list[Row]:
    """The rows of such times, where measuring the ceilings gives this bandwidth."""
    return judged(
        [implementation(*entry, place, len(entries)) for place, entry in enumerate(entries)], ceilings(bytes_per_s)
    )


BASELINE = ("plain", "baseline", noisy(0.020))


@pytest.mark.parametrize(("clock", "device_s"), [("wall", 0.004), ("device", None)])
def test_a_row_by_the_caller_s_clock_has_its_time_on_the_device(clock: str, device_s: float | None) -> None:
    one = Recorder.of(DescribedImplementation("plain", "baseline", "cuda", "x.py:1"))
    for number, time in enumerate(noisy(0.020)):
        for sample in (Sample(wall_s=time, bracket_s=time), Sample(device_s=0.2 * time, bracket_s=time)):
            one.record((0, number, number), sample, calls=1, judged=False)
    (row,) = judged([one.facts], clock=clock)
    found = row.device_s
    assert (found is None) is (device_s is None)
    if found is not None and device_s is not None:
        assert found.low <= device_s <= found.high


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


# Times in six passes each. Other work disturbed most of the first, and the one that it left alone is the fastest of all.
DISTURBED = [0.052, 0.080, 0.068, 0.047, 0.187, 0.0097]
QUIET = [0.0098, 0.0101, 0.0102, 0.0100, 0.0100, 0.0103]


@pytest.mark.parametrize(
    ("times_s", "others_s", "by_interval"), [(DISTURBED, QUIET, Verdict.FASTER), (QUIET, DISTURBED, Verdict.SLOWER)]
)
def test_few_times_that_overlap_are_no_difference(
    times_s: list[float], others_s: list[float], by_interval: Verdict
) -> None:
    row = scored(("plain", "baseline", times_s), ("other", "variant", others_s))[1]
    assert row.speedup is not None
    assert verdict(row.speedup, 0.01) is by_interval, "the interval alone would say so"
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.reason is not None
    assert row.reason.startswith("the times of other and of plain overlap: those of one code would be as far apart by")


def test_few_times_that_do_not_overlap_differ() -> None:
    slow = [*DISTURBED[:-1], 0.045]
    assert scored(("plain", "baseline", slow), ("other", "variant", QUIET))[1].verdict is Verdict.FASTER
    assert scored(("plain", "baseline", QUIET), ("other", "variant", slow))[1].verdict is Verdict.SLOWER


def test_sampling_until_it_is_decided_does_not_end_with_times_that_overlap() -> None:
    for times_s, said in ((DISTURBED, Verdict.INCONCLUSIVE), ([*DISTURBED[:-1], 0.045], Verdict.FASTER)):
        entries = [("plain", "baseline", times_s), ("other", "variant", QUIET)]
        sides = [implementation(*one, place, 2) for place, one in enumerate(entries)]
        assert Shown(sides, {"plain", "other"}, Clocks(), "wall", 0).verdicts(0.01) == {"other": said}


def test_a_machine_that_drifts_more_than_the_gain_hides_no_gain() -> None:
    drifting = [0.020 * 1.3 ** (number / PASSES) for number in range(PASSES)]
    ours = [time_s / 1.05 for time_s in drifting]
    assert scored(("plain", "baseline", drifting), ("other", "variant", ours))[1].verdict is Verdict.FASTER


# Two runs of one code beside two busy processes on two processors, from bundles: the times of both sides in
# microseconds, and how often each sample lost a processor. Blocks had one sample on one side and four on the other.
LOADED = [
    (
        ([8032.4, 19900.4, 15976.3, 24222.0, 15961.7, 20431.8], [2, 2, 2, 2, 2, 4]),
        (
            [
                52.5,
                49.4,
                56.9,
                48.2,
                48.6,
                50.3,
                7895.6,
                53.0,
                48.0,
                7993.5,
                19838.7,
                47.9,
                15918.6,
                49.7,
                51.0,
                49.4,
                46.5,
                54.1,
                58.3,
                3688.9,
                55.8,
                11921.7,
                51.7,
                49.1,
            ],
            [0, 0, 0, 0, 0, 0, 1, 0, 0, 3, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0],
        ),
    ),
    (
        ([11914.9, 15922.2, 11911.8, 15925.2, 11702.6, 11955.5], [3, 2, 2, 2, 2, 2]),
        (
            [
                44.5,
                38.9,
                43.3,
                43.3,
                49.4,
                45.5,
                7942.4,
                51.1,
                38.0,
                35.1,
                42.1,
                44.0,
                46.7,
                7990.0,
                42.9,
                40.0,
                49.2,
                11948.2,
                52.0,
                41.0,
                54.0,
                48.0,
                50.8,
                50.2,
            ],
            [0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0],
        ),
    ),
]


def recorded(name: str, role: str, wall_us: list[float], switches: list[int], place: int) -> Observations:
    """A side of two, in six blocks."""
    one = implementation(name, role, [time / 1e6 for time in wall_us], place, 2)
    length = len(wall_us) // 6
    blocks = [number // length * 2 + place for number in range(len(wall_us))]
    return evolve(one, samples=evolve(one.samples, block=blocks, involuntary_switches=switches))


@pytest.mark.parametrize("sides", LOADED)
def test_the_samples_that_lost_a_processor_make_no_verdict(sides: tuple[tuple[list[float], list[int]], ...]) -> None:
    (first, second), names = sides, ("plain", "other")
    for ours, theirs, share in ((second, first, "plain"), (first, second, "other")):
        row = judged([recorded("plain", "baseline", *theirs, 0), recorded("other", "variant", *ours, 1)])[1]
        assert row.verdict is Verdict.INCONCLUSIVE, names
        assert row.reason == (
            f"100 % of the samples of {share} lost a processor to other work; 0 passes have samples of both sides that "
            "lost none, and a verdict needs 6: repeat it on a quiet machine, or give it more time with --budget"
        )


def disturbed(
    ours_s: list[float], theirs_s: list[float], interrupted: int, *, ours: bool = False
) -> list[Observations]:
    """Baseline and variant, where the last samples of one side lost a processor."""
    entries = [("plain", "baseline", theirs_s), ("other", "variant", ours_s)]
    sides = [implementation(*one, place, 2) for place, one in enumerate(entries)]
    switches = [0] * (PASSES - interrupted) + [3] * interrupted
    side = sides[ours]
    sides[ours] = evolve(side, samples=evolve(side.samples, involuntary_switches=switches))
    return sides


def under_load(
    ours_s: list[float],
    theirs_s: list[float],
    *,
    interrupted: int,
    ours: bool = False,
    clock: str = "wall",
    busy: float | None = None,
) -> Row:
    """The variant's row. `busy`: the load of the whole round."""
    sides = disturbed(ours_s, theirs_s, interrupted, ours=ours)
    if clock == "device":
        sides = [evolve(one, samples=evolve(one.samples, device_s=one.samples.wall_s)) for one in sides]
    if busy is not None:
        load = Reading(at_s=0.0, cpu_busy=busy + 0.2, cpu_own=0.2, steal=0.0)
        sides = [evolve(one, conditions=summary([Reading(at_s=0.0)], [load])) for one in sides]
    return judged(sides, clock=clock)[1]


# Other work lengthens the last calls of a side to seven times their length.
def late(time_s: float, interrupted: int) -> list[float]:
    return [*noisy(time_s)[: PASSES - interrupted], *noisy(0.070)[PASSES - interrupted :]]


def test_sampling_until_it_is_decided_asks_the_samples_that_lost_no_processor() -> None:
    for ours_s, theirs_s, said in (
        (noisy(0.002), late(0.010, 6), Verdict.INCONCLUSIVE),
        (noisy(0.010), noisy(0.015), Verdict.FASTER),
    ):
        sides = disturbed(ours_s, theirs_s, 6)
        assert Shown(sides, {"plain", "other"}, Clocks(), "wall", 0).verdicts(0.01) == {"other": said}


FEW = "75 % of the samples of plain lost a processor to other work; 3 passes have samples of both sides that lost none, and a verdict needs 6: repeat it on a quiet machine, or give it more time with --budget"
OTHER_SIZE = "50 % of the samples of plain lost a processor to other work; the samples that lost none show 5x [5, 5], and all samples 19.9x: repeat it on a quiet machine, or give it more time with --budget"


@pytest.mark.parametrize(
    ("ours_s", "theirs_s", "interrupted", "busy", "said", "reason"),
    [
        # What lost no processor shows the same difference, so that the rest does not matter.
        (0.010, noisy(0.015), 6, None, Verdict.FASTER, None),
        # The same direction, and another size.
        (0.002, late(0.010, 6), 6, None, Verdict.INCONCLUSIVE, OTHER_SIZE),
        # Too few lost none. A load that is known to be small explains nothing: a long call loses a processor each time.
        (0.009, late(0.010, 9), 9, None, Verdict.INCONCLUSIVE, FEW),
        (0.009, late(0.010, 9), 9, 0.5, Verdict.INCONCLUSIVE, FEW),
        (0.010, noisy(0.015), 12, 0.01, Verdict.FASTER, None),
    ],
)
def test_samples_that_lost_no_processor_decide(
    ours_s: float,
    theirs_s: list[float],
    interrupted: int,
    busy: float | None,
    said: Verdict,
    reason: str | None,
) -> None:
    row = under_load(noisy(ours_s), theirs_s, interrupted=interrupted, busy=busy)
    assert (row.verdict, row.reason) == (said, reason)


def test_a_variant_that_other_work_may_have_slowed_is_left_open_too() -> None:
    assert under_load(late(0.010, 6), noisy(0.010), interrupted=6, ours=True).verdict is Verdict.INCONCLUSIVE
    assert under_load(noisy(0.015), noisy(0.010), interrupted=6, ours=True).verdict is Verdict.SLOWER


def test_without_the_guard_of_conditions_every_sample_counts() -> None:
    sides = [implementation(*one, place, 2) for place, one in enumerate([BASELINE, ("other", "variant", noisy(0.010))])]
    sides[0] = evolve(sides[0], samples=evolve(sides[0].samples, involuntary_switches=[1] * PASSES))
    assert judged(sides)[1].verdict is Verdict.INCONCLUSIVE
    assert judged(sides, judging=Judging(off=["conditions"]))[1].verdict is Verdict.FASTER


def test_a_device_s_own_time_waits_for_no_processor() -> None:
    assert under_load(noisy(0.010), late(0.010, 9), interrupted=PASSES, clock="device").verdict is Verdict.FASTER


def of_memory(ours: int | None, *, device: str = "cuda", control: int | None = None, time_s: float = 0.040) -> Row:
    """A variant whose peak is `ours`, beside a baseline with a peak of 100 MiB, where memory is the goal."""
    entries = [BASELINE, ("other", "variant", noisy(time_s)), ("again", "control", noisy(0.020))]
    observed = [implementation(*one, place, 3) for place, one in enumerate(entries)]
    peaks = [None if peak is None else Memory(peak_bytes=peak) for peak in (100 * MIB, ours, control or 100 * MIB)]
    observed = [evolve(one, device=device, memory=peak) for one, peak in zip(observed, peaks, strict=True)]
    rows = judged(observed, goal="memory")
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
    assert row.reason == ("the difference of 3.1 % is not above the A/A difference of the baseline's peak, 5.3 %")


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
    base = implementation("base", "variant", noisy(0.02), 0, 2)
    assert [row.mechanisms for row in judged([base, Recorder.of(declared).facts])] == [[], ["tiling", "fusion"]]


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


def test_a_gain_within_what_the_baseline_differs_from_itself_is_refused() -> None:
    variant = ("other", "variant", noisy(0.0190))
    steady, unsteady = ("plain again", "control", noisy(0.020)), ("plain again", "control", noisy(0.0215))
    assert scored(BASELINE, variant, steady)[1].verdict is Verdict.FASTER
    refused = scored(BASELINE, variant, unsteady)[1]
    assert refused.verdict is Verdict.INCONCLUSIVE
    assert refused.reason is not None
    assert refused.reason.startswith(
        "the difference of 5.3 % is not above the A/A difference of the baseline here, up to "
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
    (without,) = scored(("plain", "baseline", wild), bytes_per_s=1e12)
    assert without.time_s is not None
    assert without.time_s.low < 0.008


def test_too_few_passes_are_said() -> None:
    _, variant = scored(("plain", "baseline", [0.020, 0.021]), ("other", "variant", [0.010, 0.010]))
    assert variant.verdict is Verdict.INCONCLUSIVE
    assert variant.reason == "too few passes for an interval; give it more time with --budget"


def test_each_rank_has_its_own_audit_and_the_state_of_its_own_device() -> None:
    notes = RankNotes([Rank(rank=number, device=f"cuda:{number}", work_s=0.02) for number in range(2)])
    notes.audits = [Audit([time_s], [time_s], [], 0) for time_s in (0.018, 0.019)]
    notes.readings = {1: [Reading(at_s=0.0, throttled=("sw_thermal_slowdown",))]}
    own = summary([Reading(at_s=0.0, throttled=())])
    (row,) = judged([evolve(implementation(*BASELINE, 0, 1), ranks=notes.records(), conditions=own)])
    first, second = row.ranks
    assert (first.audit, first.conditions) == (notes.audits[0], None)
    assert second.audit == notes.audits[1]
    assert second.conditions is not None
    assert second.conditions.throttled == {"sw_thermal_slowdown": 1.0}
    assert [(each.issue, each.message.partition(":")[0]) for each in row.findings] == [
        ("environment.thermal_throttling", "rank 1")
    ]


def test_interference_is_warned_of() -> None:
    (row,) = judged([evolve(implementation(*BASELINE, 0, 1), isolated_samples_s=noisy(0.010))])
    assert row.verdict is Verdict.MEASURED
    assert [(one.issue, one.severity) for one in row.findings] == [("timing.interference", "warning")]
    assert row.findings[0].message == "plain takes 100 % more time in alternation with the others than alone"
    assert row.isolated_s is not None


@pytest.mark.parametrize(("least_s", "is_told"), [(2.6e-4, True), (2.4e-4, False)])
def test_isolated_samples_that_the_harness_hides_tell_nothing(least_s: float, is_told: bool) -> None:
    plain = observed("plain", "baseline", 0, own_s=1e-5, ended_s=3e-4, halted_s=4e-4)
    alone = evolve(plain, isolated_samples_s=[*noisy(3e-4), least_s])
    other = observed("other", "variant", 1, own_s=1e-5, ended_s=3e-4, halted_s=4e-4)
    row = judged([alone, other], clocks=Clocks({"wall": 2.5e-4}))[0]
    assert row.verdict is Verdict.MEASURED
    assert (row.isolated_s is not None) is is_told


@pytest.mark.parametrize(
    ("replied_s", "said"),
    [
        (0.021, Verdict.INCONCLUSIVE),
        (0.0199, Verdict.FASTER),
        (None, Verdict.FASTER),  # trusted code
    ],
)
def test_a_gain_by_its_own_clock_alone_is_doubted_of_who_is_not_trusted(replied_s: float | None, said: Verdict) -> None:
    plain, forged = implementation(*BASELINE, 0, 2), implementation("forged", "variant", noisy(0.0195), 1, 2)
    taken = evolve(forged.samples, replied_s=[replied_s] * PASSES)
    row = judged([plain, evolve(forged, samples=taken)])[1]
    assert row.verdict is said, row.reason
    if said is Verdict.INCONCLUSIVE:
        assert row.reason is not None
        assert row.reason.startswith("from the release of its inputs until its output was there for good")


def test_a_difference_that_chance_explains_leaves_the_row_open() -> None:
    """Eight late answers of each side do not tell work of a process from work of others, however late they are."""
    sides = []
    for place, answered_s in enumerate((1.1e-3, 9e-3)):
        one = implementation("side", "variant" if place else "baseline", [1e-3] * 8, place, 2)
        sides.append(evolve(one, samples=evolve(one.samples, answered_s=[answered_s] * 8)))
    row = judged(sides, judging=Judging(watches_calls=True))[1]
    assert (row.verdict, row.findings) == (Verdict.INCONCLUSIVE, [])
    assert row.reason == (
        "its process is busy for 7,900 us more than the baseline's beside the timed call, which takes the baseline 1,000 "
        "us; other work on the machine may be the cause: repeat it on a quiet machine"
    )
    # What a check saw counts all the same.
    checked = [Sighting("tamper.statistics", "the mean was replaced")]
    row = judged([sides[0], evolve(sides[1], checked=checked)], judging=Judging(watches_calls=True))[1]
    assert (row.verdict, row.reason) == (Verdict.INVALID, "the mean was replaced")


def observed(name: str, role: str, place: int, *, own_s: float, ended_s: float, halted_s: float) -> Observations:
    """An implementation whose samples an observer timed."""
    one = implementation(name, role, noisy(ended_s), place, 2)
    taken = evolve(one.samples, own_s=[own_s] * PASSES, replied_s=[halted_s] * PASSES, begun_s=[None] * PASSES)
    return evolve(one, samples=taken)


@pytest.mark.parametrize(
    ("ended_s", "halted_s", "said"),
    [
        (0.015, 0.0151, Verdict.FASTER),
        # It has stopped no sooner than the baseline's call alone took, which is less than the baseline's sample.
        (0.015, 0.0201, Verdict.INCONCLUSIVE),
        (0.001, 0.0201, Verdict.INCONCLUSIVE),
        (0.0205, 0.0209, Verdict.SAME),
    ],
)
def test_a_gain_by_an_observers_clock_is_believed_by_what_cannot_be_saved(
    ended_s: float, halted_s: float, said: Verdict
) -> None:
    plain = observed("plain", "baseline", 0, own_s=0.02, ended_s=0.0205, halted_s=0.0209)
    other = observed("other", "variant", 1, own_s=1e-6, ended_s=ended_s, halted_s=halted_s)
    row = judged([plain, other])[1]
    assert row.verdict is said, row.reason
    if said is Verdict.INCONCLUSIVE:
        assert row.reason == (
            "from the release of its inputs until its output was there for good, a call takes 20,100 us, and the "
            "baseline's call alone 20,000 us: the gain may be time of the harness; make the workload larger"
        )


def test_a_call_that_the_harness_hides_is_left_open() -> None:
    plain = observed("plain", "baseline", 0, own_s=1e-5, ended_s=3e-4, halted_s=4e-4)
    other = observed("other", "variant", 1, own_s=1e-5, ended_s=2e-4, halted_s=3e-4)
    row = judged([plain, other], clocks=Clocks({"wall": 2.5e-4}))[1]
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.findings == []
    assert row.reason == (
        "a sample takes no longer than the harness itself in a sample, 250 us: make the workload larger, or repeat it "
        "on a quiet machine"
    )


def test_what_the_harness_takes_is_what_the_baselines_process_does_not() -> None:
    plain = observed("plain", "baseline", 0, own_s=0.02, ended_s=0.0205, halted_s=0.0209)
    assert harness_s(plain.samples) == min(filter(None, plain.samples.wall_s)) - 0.02
    assert harness_s(implementation("plain", "baseline", noisy(0.02), 0, 2).samples) is None
