import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate, Memory, Samples
from aiperf_core.results import address, example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats.compare import Difference, compare, independent_ratio
from aiperf_core.stats.intervals import Blocks, median_interval, ratio_interval

TARGET = "ch07.memory_access"
SURE = {"strided", "coalesced", "wide", "prefetched", "memcpy"}


def make(path, rows=None, manifest=None, **changes):
    made = Bundle.create_at(path)
    made.write_target(attrs.evolve(example.result(), **({"rows": rows} if rows is not None else {}), **changes))
    made.write_manifest(manifest or example.manifest())
    return address.find(str(path))


def timed(factors):
    """The example's rows, those named with their times multiplied."""
    return [
        attrs.evolve(row, time_s=example.estimate(row.time_s.value * factors.get(row.name, 1)))
        if row.time_s and row.name != "prefetched"
        else row
        for row in example.rows()
    ]


def verdicts(found):
    return {row.implementation: row.verdict for row in found.rows if row.verdict}


def test_a_run_and_itself(tmp_path):
    one = make(tmp_path / "a")
    found = compare(one, one)
    assert found.differences == []
    assert not found.paired
    assert verdicts(found) == dict.fromkeys(SURE, Verdict.SAME) | {"prefetched": Verdict.INCONCLUSIVE}
    assert {row.implementation: row.reason for row in found.rows if not row.verdict} == {
        "remembered": "left: INVALID, right: INVALID",
        "swizzled": "left: FAILED, right: FAILED",
        "tensor_memory": "left: SKIPPED, right: SKIPPED",
    }


def test_faster_and_slower(tmp_path):
    found = compare(make(tmp_path / "a"), make(tmp_path / "b", timed({"strided": 0.9, "wide": 1.1, "memcpy": 1.012})))
    said = verdicts(found)
    assert (said["strided"], said["wide"], said["memcpy"]) == (Verdict.FASTER, Verdict.SLOWER, Verdict.INCONCLUSIVE)
    assert [row.implementation for row in found.regressions] == ["wide"]
    ratio = next(row.ratio for row in found.rows if row.implementation == "wide")
    half = math.hypot(math.log(1.003), -math.log(0.997))
    assert ratio.value == pytest.approx(1 / 1.1)
    assert math.log(ratio.high / ratio.value) == pytest.approx(half, rel=1e-6)


def test_where_memory_is_the_goal_peaks_are_compared(tmp_path):
    def with_peaks(**peaks):
        return [attrs.evolve(row, memory=Memory(peak_bytes=peaks.get(row.name, 100))) for row in timed({"wide": 9})]

    left = make(tmp_path / "a", with_peaks(coalesced=50), goal="memory")
    right = make(tmp_path / "b", with_peaks(coalesced=25, wide=101, memcpy=102), goal="memory")
    found = compare(left, right)
    said = verdicts(found)
    assert (said["coalesced"], said["wide"], said["memcpy"]) == (Verdict.SMALLER, Verdict.SAME, Verdict.LARGER)
    assert next(row.ratio for row in found.rows if row.implementation == "coalesced") == Estimate(2.0, 2.0, 2.0)
    assert [row.implementation for row in found.regressions] == ["memcpy"]
    (one, *_) = compare(left, make(tmp_path / "c")).rows
    assert one.reason == "not the same work: goal memory and time"


def test_a_wider_floor_forgives(tmp_path):
    left, right = make(tmp_path / "a"), make(tmp_path / "b", timed({"wide": 1.1}))
    assert compare(left, right, floor=0.2).regressions == []
    assert compare(left, right, floor=0.05).regressions != []


def test_the_larger_floor_of_the_runs_counts(tmp_path):
    left = make(tmp_path / "a")
    assert compare(left, make(tmp_path / "b", timed({"wide": 1.1}), floor=0.2)).regressions == []


def test_a_difference_within_what_a_baseline_differs_from_itself_decides_nothing(tmp_path):
    control = example.row("strided again", "control", Verdict.MEASURED, 5.2e-3, 1.05, spread=0.06)
    found = compare(make(tmp_path / "a"), make(tmp_path / "b", [*timed({"wide": 1.1}), control]))
    assert verdicts(found)["wide"] is Verdict.INCONCLUSIVE
    assert "strided again" not in {row.implementation for row in found.rows}


def test_a_row_that_was_believed_and_is_no_more(tmp_path):
    rows = [
        attrs.evolve(row, verdict=Verdict.UNTRUSTED, reason="clocks", speedup=None) if row.name == "coalesced" else row
        for row in example.rows()
    ]
    found = compare(make(tmp_path / "a"), make(tmp_path / "b", rows))
    assert [row.implementation for row in found.distrusted] == ["coalesced"]
    assert next(row.reason for row in found.rows if row.implementation == "coalesced") == "right: UNTRUSTED"
    assert compare(make(tmp_path / "c", rows), make(tmp_path / "d")).distrusted == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"device": "cpu"}, "not the same work: device cuda and cpu"),
        ({"cache": "warm"}, "not the same work: cache cold and warm"),
        ({"clock": "wall"}, "not the same work: clock device and wall"),
        (
            {"problem": attrs.evolve(example.result().problem, params={"n": 4096})},
            "not the same work: sizes n=268,435,456 and n=4,096",
        ),
        (
            {"problem": attrs.evolve(example.result().problem, precision="bf16")},
            "not the same work: precision fp32 and bf16",
        ),
    ],
)
def test_other_work_is_not_compared(tmp_path, change, reason):
    found = compare(make(tmp_path / "a"), make(tmp_path / "b", timed({"wide": 2}), **change))
    assert verdicts(found) == {}
    assert next(row.reason for row in found.rows if row.implementation == "wide") == reason


def test_rows_and_targets_of_one_side_are_named(tmp_path):
    left = make(tmp_path / "a", example.rows()[:2])
    right = make(tmp_path / "b", example.rows()[1:3])
    right.bundle.write_target(attrs.evolve(example.result(), target="ch07.other", rows=example.rows()[:1]))
    reasons = {(row.target, row.implementation): row.reason for row in compare(left, right).rows if not row.verdict}
    assert reasons == {
        (TARGET, "strided"): "only in the left run",
        (TARGET, "wide"): "only in the right run",
        ("ch07.other", "strided"): "only in the right run",
    }


def test_what_differs_stands_first(tmp_path):
    before = example.manifest()
    machine = attrs.evolve(
        before.machine, hostname="node8", driver="575.1", gpus=[{**before.machine.gpus[0], "name": "NVIDIA H100"}]
    )
    after = attrs.evolve(
        before,
        machine=machine,
        packages={**before.packages, "torch": "2.14.0", "numpy": "2.4"},
        files={"aiperf_ch07.memory_access": "fedcba9876543210" * 4, "aiperf_ch07.unrelated": "0" * 64},
        complete=False,
        git=None,
    )
    right = make(tmp_path / "b", manifest=after, tier="standard", rounds=3)
    assert compare(make(tmp_path / "a"), right).differences == [
        Difference("GPU", "NVIDIA H200", "NVIDIA H100"),
        Difference("driver", "570.86.15", "575.1"),
        Difference("host", "node7", "node8"),
        Difference("git", "0123456789ab-dirty", ""),
        Difference("package torch", "2.13.0", "2.14.0"),
        Difference("package numpy", "", "2.4"),
        Difference("source aiperf_ch07.memory_access", "0123456789ab", "fedcba987654"),
        Difference("run", "complete", "not complete"),
        Difference(f"{TARGET} tier", "quick, 1 round", "standard, 3 rounds"),
    ]


# --- two implementations


def measured(name, role, index, factor, drift):
    """Eight passes of three samples; pass by pass the machine becomes slower by the same drift for everybody."""
    noise = np.random.default_rng(index).normal(1, 0.001, 24)
    times = [1e-3 * factor * (1 + drift * (k // 3)) * noise[k] for k in range(24)]
    none, no, zero = [None] * 24, [False] * 24, [0] * 24
    samples = Samples(
        round=zero,
        block=[(k // 3) * 2 + index for k in range(24)],
        step=list(range(24)),
        device_s=times,
        wall_s=none,
        cpu_s=none,
        bracket_s=times,
        hidden=no,
        judged=no,
        calls=[1] * 24,
        voluntary_switches=zero,
        involuntary_switches=zero,
        throttled=no,
        answered_s=none,
        **example.of_trusted_code(24),
    )
    row = example.row(name, role, Verdict.MEASURED, 1e-3 * factor)
    passes = [k // 3 for k in range(24)]
    blocks = Blocks.of(times, passes, exact=example.result().judging.exact_quantiles)
    return attrs.evolve(row, samples=samples, time_s=median_interval(blocks)), blocks


def test_two_implementations_of_a_run_are_paired(tmp_path):
    (a, ours), (b, theirs) = measured("a", "baseline", 0, 1.0, 0.05), measured("b", "variant", 1, 0.95, 0.05)
    make(tmp_path / "run", [a, b])
    sides = [address.find(f"{tmp_path / 'run'}:{TARGET}:{name}") for name in "ab"]
    found = compare(*sides)
    (row,) = found.rows
    assert found.paired
    assert (row.implementation, row.verdict) == ("a -> b", Verdict.FASTER)
    assert row.ratio == ratio_interval(ours, theirs)
    # Not paired, the drift of the machine hides the difference.
    unpaired = independent_ratio(a.time_s, b.time_s)
    assert unpaired.low < 1 < row.ratio.low


def test_implementations_of_two_runs_are_not_paired(tmp_path):
    a = make(tmp_path / "a")
    make(tmp_path / "b", timed({"wide": 1.1}))
    sides = [address.find(f"{tmp_path / run}:{TARGET}:wide") for run in "ab"]
    found = compare(*sides)
    assert (found.paired, found.rows[0].verdict, found.rows[0].implementation) == (False, Verdict.SLOWER, "wide")
    with pytest.raises(UsageError, match="one side names an implementation and the other does not"):
        compare(a, sides[1])


def test_samples_that_make_no_sense_allow_no_ratio(tmp_path):
    (a, _), (b, _) = measured("a", "baseline", 0, 1.0, 0), measured("b", "variant", 1, 1.0, 0)
    b = attrs.evolve(b, samples=attrs.evolve(b.samples, calls=[0] * 24))
    make(tmp_path / "run", [a, b])
    (row,) = compare(*(address.find(f"{tmp_path / 'run'}:{TARGET}:{name}") for name in "ab")).rows
    assert (row.verdict, row.ratio) == (None, None)
    assert row.reason.startswith("the samples allow no ratio")


def test_nothing_in_common(tmp_path):
    left, right = make(tmp_path / "a"), make(tmp_path / "b", target="ch07.other")
    with pytest.raises(UsageError, match="have no target in common, so there is nothing to compare"):
        compare(left, right)


# --- the ratio of two runs


def run_of(rng, median):
    """A run of 20 passes of 5 samples: passes differ, and so do samples."""
    times = median * np.exp(np.repeat(rng.normal(0, 0.01, 20), 5) + rng.normal(0, 0.02, 100))
    return median_interval(Blocks.of(list(times), list(np.repeat(range(20), 5))))


def test_the_interval_of_two_runs_holds_what_it_says():
    """95 % of the time another pair of runs has its ratio within; the true ratio lies within more often."""
    rng = np.random.default_rng(7)
    pairs = [independent_ratio(run_of(rng, 2.0), run_of(rng, 1.0)) for _ in range(80)]
    again = [run_of(rng, 2.0).value / run_of(rng, 1.0).value for _ in pairs]
    held = [one.low <= value <= one.high for one, value in zip(pairs, again, strict=True)]
    assert 0.88 <= np.mean(held) <= 1.0
    assert np.mean([one.low <= 2.0 <= one.high for one in pairs]) >= 0.95
    # And it is not wide for nothing: no wider than twice what the ratios themselves spread.
    width = np.median([math.log(one.high / one.low) for one in pairs])
    assert width < 2 * 2 * 1.96 * np.std(np.log(again))


POSITIVE = st.floats(1e-300, 1e300)


@given(st.tuples(POSITIVE, POSITIVE, POSITIVE), st.tuples(POSITIVE, POSITIVE, POSITIVE))
def test_any_two_intervals_have_a_ratio_or_none(top, bottom):
    top, bottom = (Estimate(sorted(one)[1], min(one), max(one)) for one in (top, bottom))
    found = independent_ratio(top, bottom)
    if found is None:
        return
    assert 0 < found.low <= found.value <= found.high < math.inf
    back = independent_ratio(bottom, top)
    if back is not None:
        assert back.low == pytest.approx(1 / found.high, rel=1e-6)


def test_an_interval_down_to_zero_has_no_ratio(tmp_path):
    assert independent_ratio(Estimate(1.0, 0.0, 2.0), Estimate(1.0, 0.9, 1.1)) is None
    rows = [attrs.evolve(row, time_s=Estimate(1.0, -1.0, 2.0)) if row.time_s else row for row in example.rows()]
    found = compare(make(tmp_path / "a"), make(tmp_path / "b", rows))
    assert {row.reason for row in found.rows if isinstance(row.left, Row) and row.left.time_s} == {
        "an interval has no finite bound"
    }
