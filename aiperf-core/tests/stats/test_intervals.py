"""Intervals and verdicts, on made-up data whose true answer is known."""

import itertools
import math
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Verdict
from aiperf_core.stats import intervals
from aiperf_core.stats.intervals import (
    Blocks,
    half_width,
    joint_medians,
    log_contrast,
    median_interval,
    ratio_interval,
    verdict,
)

SIMULATIONS, REPEATS = 200, 100

# Each estimate draws some thousand resamples.
few = settings(deadline=None, max_examples=40)

TIMES = st.floats(1e-9, 1e3)
BLOCKS = st.lists(st.lists(TIMES, min_size=1, max_size=4), min_size=6, max_size=10).map(
    lambda blocks: Blocks.of(
        [time for block in blocks for time in block],
        [number for number, block in enumerate(blocks) for _ in block],
    )
)


def pair(
    seed: int, *, ratio: float = 1.0, passes: int = 12, length: int = 4, shared: float = 0.05, own: float = 0.01
) -> tuple[Blocks, Blocks]:
    """Two sides of a made-up run. All effects are lognormal with median 1, so `ratio` is the true ratio of medians.

    `shared` is the spread of what a pass does to both sides, `own` of what a block does to one; samples spread by 2 %.
    """
    rng = np.random.default_rng(seed)
    common = rng.lognormal(0, shared, passes)

    def side(scale: float) -> Blocks:
        level = scale * common * rng.lognormal(0, own, passes)
        times = level[:, None] * rng.lognormal(0, 0.02, (passes, length))
        return Blocks.of(list(times.ravel()), list(np.repeat(np.arange(passes), length)))

    return side(ratio), side(1.0)


def more_of_the_same(*values: float) -> Any:
    """A case between others."""
    return pytest.param(*values, marks=pytest.mark.long)


def estimated(top: Blocks, bottom: Blocks, seed: int = 0) -> Estimate:
    estimate = ratio_interval(top, bottom, seed)
    assert estimate is not None
    return estimate


def of_median(blocks: Blocks, seed: int = 0) -> Estimate:
    estimate = median_interval(blocks, seed)
    assert estimate is not None
    return estimate


# --- properties


@few
@given(BLOCKS)
def test_an_interval_contains_its_median(blocks: Blocks) -> None:
    estimate = of_median(blocks)
    assert estimate.value == np.median(blocks.times)
    assert 0 < estimate.low <= estimate.value <= estimate.high < math.inf


@few
@given(BLOCKS, BLOCKS)
def test_an_interval_contains_its_ratio(top: Blocks, bottom: Blocks) -> None:
    estimate = estimated(top, bottom)
    assert 0 < estimate.low <= estimate.value <= estimate.high < math.inf


@few
@given(BLOCKS, BLOCKS)
def test_an_interval_ends_near_the_samples(top: Blocks, bottom: Blocks) -> None:
    time, ratio = of_median(top), estimated(top, bottom)
    assert time.low >= top.times.min() / 2
    assert time.high <= top.times.max() * 2
    assert ratio.low >= top.times.min() / bottom.times.max() / 4 * (1 - 1e-12)
    assert ratio.high <= top.times.max() / bottom.times.min() * 4 * (1 + 1e-12)


def test_a_wild_sample_does_not_make_an_interval_without_end() -> None:
    times = [42e-6, 51e-6, 45e-6, 12e-3, 30e-3, 25e-3]
    found = of_median(Blocks.of(times, list(range(6))))
    assert (found.low, found.high) == (21e-6, 60e-3)


@few
@given(BLOCKS, BLOCKS, st.integers(-20, 20))
def test_units_change_nothing(top: Blocks, bottom: Blocks, power: int) -> None:
    scale = 2.0**power
    scaled = evolve(top, times=top.times * scale), evolve(bottom, times=bottom.times * scale)
    assert ratio_interval(*scaled) == ratio_interval(top, bottom)
    one, other = of_median(top), of_median(scaled[0])
    assert (other.value, other.low, other.high) == pytest.approx(
        (one.value * scale, one.low * scale, one.high * scale), rel=1e-9
    )


@few
@given(st.integers(0, 10_000), st.floats(0.1, 10.0))
def test_a_ratio_turned_over_is_the_inverse(seed: int, ratio: float) -> None:
    top, bottom = pair(seed, ratio=ratio, length=1)
    one, other = estimated(top, bottom), estimated(bottom, top)
    assert one.value == pytest.approx(1 / other.value)
    assert one.low == pytest.approx(1 / other.high, rel=5e-3)
    assert one.high == pytest.approx(1 / other.low, rel=5e-3)


@few
@given(BLOCKS, st.floats(0.01, 100.0))
def test_what_both_sides_share_does_not_widen_their_ratio(bottom: Blocks, ratio: float) -> None:
    keep = np.unique(bottom.passes, return_index=True)[1]
    bottom = bottom.only(keep)
    estimate = estimated(evolve(bottom, times=bottom.times * ratio), bottom)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((ratio, ratio, ratio))


def test_the_same_samples_give_the_same_interval() -> None:
    top, bottom = pair(0)
    assert estimated(top, bottom) == estimated(top, bottom)
    assert estimated(top, bottom) != estimated(top, bottom, seed=1)
    assert of_median(top) == of_median(top)


def test_large_data_is_resampled_in_parts_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    top, bottom = pair(0)
    whole = estimated(top, bottom)
    monkeypatch.setattr(intervals, "_MAX_ELEMENTS", intervals.DRAWS * len(top.times))
    assert intervals._draws_for(len(top.times)) == intervals.DRAWS
    intervals._remembered.cache_clear()
    assert estimated(top, bottom) == whole


@pytest.mark.parametrize(("passes", "length"), [(12, 1_700), (1200, 1)])
def test_weights_say_what_drawing_says(monkeypatch: pytest.MonkeyPatch, passes: int, length: int) -> None:
    top, bottom = pair(3, ratio=1.2, passes=passes, length=length, own=0.05)
    weighed = estimated(top, bottom)
    monkeypatch.setattr(intervals, "_MANY_PASSES", 10**6)
    monkeypatch.setattr(intervals, "_MANY_SAMPLES", 10**6)
    intervals._remembered.cache_clear()
    drawn = estimated(top, bottom)
    intervals._remembered.cache_clear()
    assert weighed != drawn
    assert weighed.value == drawn.value
    assert half_width(weighed) == pytest.approx(half_width(drawn), rel=0.15)


@pytest.mark.quiet
@pytest.mark.parametrize(("passes", "length"), [(100_000, 1), (6_250, 16), (60, 1_667), (10, 10_000)])
def test_a_hundred_thousand_samples_take_less_than_a_second(passes: int, length: int) -> None:
    top, bottom = pair(0, passes=passes, length=length)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        estimated(top, bottom)
        of_median(top)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 1.0


@pytest.mark.parametrize(("samples", "draws"), [(0, 2000), (48, 2000), (20_000, 2000), (50_000, 800), (10**7, 400)])
def test_fewer_draws_are_made_of_large_data(samples: int, draws: int) -> None:
    assert intervals._draws_for(samples) == draws


@pytest.mark.parametrize(("passes", "factor"), [(3, 2.69), (6, 1.437), (12, 1.173), (10_000, 1.0)])
def test_an_interval_over_few_passes_is_widened_on_a_logarithmic_scale(passes: int, factor: float) -> None:
    resampled = np.exp(np.linspace(-0.1, 0.2, 2001))
    within = float(np.var(np.log(resampled)))
    estimate = intervals._widened(1.0, resampled, within, 0.0, passes - 1, 1, None, ratio=True, exact=True)
    # The quantiles leave out 2.5 % at either end: -0.0925 and 0.1925.
    # The error of the run that repeats this one comes on top.
    factor *= math.sqrt(2)
    assert math.log(estimate.low) == pytest.approx(-0.0925 * factor, rel=0.01)
    assert math.log(estimate.high) == pytest.approx(0.1925 * factor, rel=0.01)


@pytest.mark.parametrize(("process_effect", "rounds"), [(0.0, 1), more_of_the_same(0.0, 3), (0.02, 3)])
def test_an_interval_covers_what_the_next_run_finds(process_effect: float, rounds: int) -> None:
    runs = [rounds_of(1.1, process_effect, rounds, seed) for seed in range(201)]
    found = [ratio_interval(*sides) for sides in runs]
    values = [one for one in found if one is not None]
    covered = sum(one.low <= after.value <= one.high for one, after in itertools.pairwise(values))
    assert covered / (len(values) - 1) >= 0.9


@pytest.mark.parametrize("memory", [0.0, more_of_the_same(5.0), 20.0])
def test_the_interval_of_a_time_covers_the_next_run_of_a_machine_that_drifts(memory: float) -> None:
    runs = [drifting(memory, seed) for seed in range(301)]
    estimates = [of_median(one) for one in runs]
    covered = sum(one.low <= after.value <= one.high for one, after in itertools.pairwise(estimates))
    assert covered / (len(runs) - 1) >= 0.9


def drifting(memory: float, seed: int) -> Blocks:
    """Three rounds of 32 passes on a machine whose speed changes by 2 %, and is forgotten after `memory` passes."""
    rng, rounds, passes = np.random.default_rng(seed), 3, 32
    kept = math.exp(-1 / memory) if memory else 0.0
    level, levels = rng.normal(), []
    for _ in range(rounds * passes):
        level = kept * level + math.sqrt(1 - kept**2) * rng.normal()
        levels.append(level)
    times = np.exp(0.02 * np.array(levels)) * rng.lognormal(0, 0.02, rounds * passes)
    return Blocks.of(list(times), list(range(rounds * passes)), list(np.repeat(np.arange(rounds), passes)))


def quarters(*medians: float) -> Blocks:
    """Two rounds whose quarters have these medians of the logarithm, two passes a quarter."""
    times = np.exp(np.repeat(medians, 2))
    return Blocks.of(list(times), list(range(len(times))), list(np.repeat([0, 1], len(times) // 2)))


def test_quarters_that_do_not_tell_of_each_other_are_worth_their_number() -> None:
    apart = [0.01, -0.01, 0.01, -0.01, 0.01, -0.01, 0.01, -0.01]
    assert intervals._drift(quarters(*apart)) == pytest.approx(1e-4 / 7)
    assert intervals._drift(quarters(*[0.01] * 8)) == 0.0


def test_quarters_that_drift_one_way_are_worth_no_more_than_one() -> None:
    rising = np.linspace(0, 0.07, 8)
    assert intervals._drift(quarters(*rising)) == pytest.approx(np.var(rising))


def test_quarters_that_are_somewhat_alike_are_worth_less_than_their_number() -> None:
    levels = [1, 2, 1, -1, -2, 0, -1, 0]
    alike = (2 + 2 - 1 + 2) / 12
    alike += (1 + 3 * alike) / 8
    worth = 8 / (1 + 2 * sum((1 - lag / 8) * alike**lag for lag in range(1, 8)))
    assert worth > 2
    assert intervals._drift(quarters(*(0.01 * one for one in levels))) == pytest.approx(1e-4 * 12 / 8 / (worth - 1))


def test_a_quarter_may_be_empty() -> None:
    short = Blocks.of([1.0, 1.1, 1.0], [0, 1, 2], [0, 0, 1])
    assert intervals._drift(short) > 0


def test_the_median_of_each_pass() -> None:
    blocks = Blocks.of([3.0, 1.0, 2.0, 7.0, 5.0, 4.0], [0, 0, 0, 2, 3, 3])
    assert list(blocks.medians) == [2.0, 7.0, 4.5]
    assert list(blocks.only(blocks.passes < 0).medians) == []


def test_an_order_is_looked_at_in_the_passes_that_both_have() -> None:
    slow, fast = Blocks.of([2.0] * 8, [*range(8)]), Blocks.of([1.0] * 8 + [9.0] * 8, [*range(16)])
    assert intervals.unclear_order(slow, fast, Verdict.FASTER) is None
    assert intervals.unclear_order(fast, slow, Verdict.SLOWER) is None
    assert intervals.unclear_order(slow, fast, Verdict.SLOWER) == 1.0
    assert intervals.unclear_order(slow, slow, Verdict.SAME) is None


def test_few_passes_of_one_code_seldom_differ_whatever_disturbs_them() -> None:
    """Each pass of either side is, by chance, as it should be or many times slower."""
    rng = np.random.default_rng(5)
    told: Counter[str] = Counter()
    for _ in range(2000):
        disturbed = np.where(rng.random((2, 6)) < 0.6, rng.lognormal(1.5, 1.0, (2, 6)), 1.0)
        top, bottom = (Blocks.of(list(side), [*range(6)]) for side in disturbed * rng.lognormal(0, 0.02, (2, 6)))
        said = verdict(estimated(top, bottom), 0.01)
        different = said in (Verdict.FASTER, Verdict.SLOWER)
        told["by the interval"] += different
        told["by the order as well"] += different and intervals.unclear_order(top, bottom, said) is None
    assert told["by the interval"] > 5
    assert told["by the order as well"] <= 2, told


def test_no_interval_is_narrower_than_the_step_of_the_clock() -> None:
    sure = Blocks.of([1e-3] * 12, list(range(12)))
    coarse = Blocks.of([1e-3] * 12, list(range(12)), step_s=1e-5)
    assert intervals.median_interval(sure) == Estimate(1e-3, 1e-3, 1e-3)
    found = intervals.median_interval(coarse)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.99e-3, 1.01e-3), rel=1e-3)
    both = ratio_interval(coarse, coarse)
    assert both is not None
    assert both.high - both.low == pytest.approx(0.04, rel=0.01)
    assert coarse.only(np.arange(12) < 6).step_s == 1e-5


def rounds_of(ratio: float, process_effect: float, rounds: int, seed: int) -> tuple[Blocks, Blocks]:
    """Two implementations over some rounds; every process has a lasting effect of its own on its times."""
    rng = np.random.default_rng(seed)
    passes, length = 8, 4
    sides = []
    for factor in (ratio, 1.0):
        effect = rng.lognormal(0, process_effect, rounds).repeat(passes * length)
        times = factor * effect * rng.lognormal(0, 0.01, rounds * passes * length)
        which = np.arange(rounds).repeat(passes * length)
        sides.append(Blocks(times, np.arange(rounds * passes).repeat(length), which))
    return sides[0], sides[1]


@pytest.mark.parametrize("process_effect", [0.0, more_of_the_same(0.02), 0.05])
@pytest.mark.parametrize("rounds", [3, 10])
def test_intervals_over_rounds_cover_what_processes_differ_by(process_effect: float, rounds: int) -> None:
    covered = 0
    for seed in range(100):
        estimate = ratio_interval(*rounds_of(1.1, process_effect, rounds, seed))
        assert estimate is not None
        covered += estimate.low <= 1.1 <= estimate.high
    assert covered >= 88


def test_one_round_cannot_show_what_processes_differ_by_and_three_can() -> None:
    one = ratio_interval(*rounds_of(1.0, 0.05, 1, 1))
    three = ratio_interval(*rounds_of(1.0, 0.05, 3, 1))
    assert one is not None
    assert three is not None
    assert half_width(three) > 3 * half_width(one)


# --- which samples count


def test_too_few_passes_allow_no_statement() -> None:
    many = Blocks.of([1.0, 1.1, 0.9, 1.2], [0, 0, 1, 1])
    assert median_interval(many) is None
    assert ratio_interval(many, many) is None
    assert median_interval(Blocks.of([], [])) is None
    five = [1.0, 1.1, 0.9, 1.0, 1.1]
    assert median_interval(Blocks.of(five, [0, 4, 9, 11, 12])) is None
    assert median_interval(Blocks.of([*five, 1.2], [0, 4, 9, 11, 12, 13])) is not None


def test_a_ratio_is_over_the_passes_that_both_have() -> None:
    top = Blocks.of([*[2.0] * 6, *[900.0] * 5], [*range(6), *[7] * 5])
    bottom = Blocks.of([*[0.001] * 5, *[1.0] * 6], [*[-1] * 5, *range(6)])
    assert ratio_interval(top, bottom) == Estimate(2.0, 2.0, 2.0)
    assert ratio_interval(top, Blocks.of([1.0] * 6, [0, 1, 2, 3, 4, 8])) is None


def test_blocks_may_differ_in_length() -> None:
    top = Blocks.of([3.0] * 11, [0, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5])
    assert median_interval(top) == Estimate(3.0, 3.0, 3.0)
    assert top.present.tolist() == [0, 1, 2, 3, 4, 5]


def test_no_sample_is_left_out_of_the_median() -> None:
    blocks = Blocks.of([*[1.0] * 5, *[5.0] * 6], [0, 1, 2, 3, 4, *[5] * 6])
    assert of_median(blocks).value == 5.0


# --- what the intervals are worth


@pytest.mark.parametrize(
    ("ratio", "passes", "length", "shared", "own"),
    [
        pytest.param(1.0, 6, 1, 0.05, 0.01, id="as few passes as may be"),
        pytest.param(1.3, 12, 4, 0.30, 0.01, id="a restless machine"),
        pytest.param(0.8, 12, 4, 0.05, 0.05, id="blocks that differ more than their samples"),
    ],
)
def test_an_interval_covers_the_true_ratio(ratio: float, passes: int, length: int, shared: float, own: float) -> None:
    covered = 0
    for seed in range(SIMULATIONS):
        sides = pair(seed, ratio=ratio, passes=passes, length=length, shared=shared, own=own)
        estimate = estimated(*sides, seed=seed)
        covered += estimate.low <= ratio <= estimate.high
    assert covered / SIMULATIONS >= 0.88


def test_an_interval_covers_the_true_median() -> None:
    covered = 0
    for seed in range(SIMULATIONS):
        estimate = of_median(pair(seed, shared=0.1)[1], seed)
        covered += estimate.low <= 1.0 <= estimate.high
    assert covered / SIMULATIONS >= 0.88


def verdicts(floor: float, **made_up: float) -> Counter[Verdict]:
    """How often each verdict is given."""
    return Counter(
        verdict(estimated(*pair(seed, **made_up), seed=seed), floor)  # type: ignore[arg-type]
        for seed in range(SIMULATIONS)
    )


@pytest.mark.parametrize("floor", [0.0, more_of_the_same(0.01)])
def test_a_thing_is_rarely_faster_than_itself(floor: float) -> None:
    said = verdicts(floor, own=0.03)
    assert said[Verdict.FASTER] <= 0.05 * SIMULATIONS
    assert said[Verdict.SLOWER] <= 0.05 * SIMULATIONS


def test_a_gain_below_the_floor_is_never_claimed() -> None:
    said = verdicts(0.05, ratio=1.03, passes=20)
    assert said[Verdict.FASTER] == 0
    assert said[Verdict.SLOWER] == 0


@pytest.mark.parametrize(("ratio", "expected"), [(1.15, Verdict.FASTER), (0.87, Verdict.SLOWER)])
def test_a_gain_that_is_there_is_found(ratio: float, expected: Verdict) -> None:
    assert verdicts(0.01, ratio=ratio)[expected] >= 0.95 * SIMULATIONS


def test_sameness_is_found_once_the_interval_is_narrow() -> None:
    assert verdicts(0.05, shared=0.02)[Verdict.SAME] >= 0.9 * SIMULATIONS


def test_more_passes_narrow_the_interval() -> None:
    widths = [
        np.mean([half_width(estimated(*pair(seed, passes=passes))) for seed in range(8)]) for passes in (6, 24, 96)
    ]
    assert widths[0] > 1.7 * widths[1]
    assert widths[1] > 1.7 * widths[2]


# --- verdicts


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.02, 1.5, Verdict.FASTER),
        (1.01, 1.5, Verdict.INCONCLUSIVE),
        (1.0101, 1.5, Verdict.FASTER),
        (0.5, 0.98, Verdict.SLOWER),
        (0.5, 0.99, Verdict.INCONCLUSIVE),
        (0.5, 0.9899, Verdict.SLOWER),
        (0.99, 1.01, Verdict.SAME),
        (1.0, 1.0, Verdict.SAME),
        (0.9899, 1.01, Verdict.INCONCLUSIVE),
        (0.99, 1.0101, Verdict.INCONCLUSIVE),
        (1.005, 1.008, Verdict.SAME),
        (0.5, 2.0, Verdict.INCONCLUSIVE),
    ],
)
def test_the_floor_decides(low: float, high: float, expected: Verdict) -> None:
    assert verdict(Estimate((low + high) / 2, low, high), 0.01) is expected


RATIOS = st.floats(0.01, 100.0)


@given(RATIOS, RATIOS, st.floats(0.0, 0.5))
def test_a_verdict_says_what_the_interval_says(one: float, other: float, floor: float) -> None:
    low, high = sorted((one, other))
    said = verdict(Estimate(math.sqrt(low * high), low, high), floor)
    assert (said is Verdict.FASTER) == (low > 1 + floor)
    assert (said is Verdict.SLOWER) == (high < 1 - floor)
    assert (said is Verdict.SAME) == (1 - floor <= low and high <= 1 + floor)


@given(RATIOS, RATIOS, RATIOS)
def test_the_width_is_relative_to_the_value(one: float, other: float, value: float) -> None:
    low, high = sorted((one, other))
    assert half_width(Estimate(value, low, high)) == pytest.approx((high - low) / 2 / value)


@pytest.mark.parametrize(("passes", "length"), [(1, 1), (64, 1), (70, 3), (300, 7), (2000, 2)])
def test_the_middle_of_weights_is_that_of_their_sum(monkeypatch: pytest.MonkeyPatch, passes: int, length: int) -> None:
    rng = np.random.default_rng(passes)
    of_sample = rng.permutation(np.repeat(np.arange(passes), length))
    weights = rng.poisson(1, (50, passes)).astype(np.uint8)
    weights[0] = 0
    summed = np.cumsum(weights[:, of_sample], axis=1, dtype=np.int64)
    expected = [int(np.searchsorted(one, one[-1] / 2)) for one in summed]
    assert intervals._middles(of_sample, weights).tolist() == expected
    monkeypatch.setattr(intervals, "_TOGETHER", 100)
    monkeypatch.setattr(intervals, "_ONE_THREAD", 4 * passes)
    assert intervals._middles(of_sample, weights).tolist() == expected


def test_drift_between_rounds_widens_the_interval_of_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that differ by no more than their passes add no variance, but few rounds leave few degrees of freedom."""
    alike = rounds_of(1.0, 0.0, 3, 5)[1]
    one_round = evolve(alike, rounds=np.zeros_like(alike.rounds))
    with_drift, alone = median_interval(alike), median_interval(one_round)
    monkeypatch.setattr(intervals, "_drift", lambda *_: None)
    intervals._remembered.cache_clear()
    without = median_interval(alike)
    assert with_drift is not None
    assert without is not None
    assert with_drift.value == without.value
    assert half_width(with_drift) > 1.5 * half_width(without)
    assert median_interval(one_round) == alone
    intervals._remembered.cache_clear()


def four_sides(interaction: float, noise: float = 0.003) -> list[Blocks]:
    """Blocks of A, B, A with B, and neither, in the same passes, which share the machine's mood of each pass."""
    rng = np.random.default_rng(5)
    moods = rng.normal(0, 0.05, 40)
    times = (0.8, 0.5, 0.4 * interaction, 1.0)
    return [
        Blocks.of(list(time * np.exp(moods + rng.normal(0, noise, 40))), list(range(40)), [0] * 20 + [1] * 20)
        for time in times
    ]


def test_a_contrast_of_two_sides_is_their_ratio() -> None:
    top, bottom, *_ = four_sides(1.0)
    assert log_contrast((top, bottom), (1, -1)) == ratio_interval(top, bottom)
    found, turned = log_contrast((top, bottom), (1, -1)), log_contrast((top, bottom), (-1, 1))
    assert found is not None
    assert turned is not None
    assert turned.value == pytest.approx(1 / found.value)


@pytest.mark.parametrize("interaction", [0.9, 1.0, 1.1])
def test_a_contrast_finds_the_interaction_of_two_mechanisms(interaction: float) -> None:
    """The moods of the passes are shared, so the interval is far narrower than they would make it."""
    found = log_contrast(four_sides(interaction), (1, 1, -1, -1))
    assert found is not None
    assert found.low < 1 / interaction < found.high
    assert half_width(found) < 0.015


def test_weights_scale_on_the_logarithm() -> None:
    (side, *_) = four_sides(1.0)
    whole, doubled = median_interval(side), log_contrast((side,), (2,))
    assert whole is not None
    assert doubled is not None
    assert doubled.value == pytest.approx(whole.value**2)
    assert math.log(doubled.high / doubled.low) > 1.5 * math.log(whole.high / whole.low)


def test_a_contrast_counts_common_passes_only() -> None:
    one, other, *_ = four_sides(1.0)
    assert log_contrast((one.only(one.passes < 20), other.only(other.passes > 17)), (1, -1)) is None


@pytest.mark.parametrize("weights", [(), (1,), (1, 0), (1, math.inf), (1, -1, 1)])
def test_weights_that_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"each side takes a finite weight other than 0"):
        log_contrast(four_sides(1.0)[:2], weights)


def of_rounds(seed: int, scales: tuple[float, ...], *, between: float = 0.0, drift: float = 0.0) -> list[Blocks]:
    """Sides of a made-up run of three rounds of eight passes, with equal passes.

    between: the spread of what a round does to a side. drift: the spread of what a round does to all sides.
    """
    rng = np.random.default_rng(seed)
    passes, length, rounds = 24, 4, 3
    of_pass = np.repeat(np.arange(rounds), passes // rounds)
    common = rng.lognormal(0, 0.03, passes) * rng.lognormal(0, drift, rounds)[of_pass]
    sides = []
    for scale in scales:
        level = scale * common * rng.lognormal(0, between, rounds)[of_pass] * rng.lognormal(0, 0.01, passes)
        times = level[:, None] * rng.lognormal(0, 0.02, (passes, length))
        numbers = np.repeat(np.arange(passes), length)
        sides.append(Blocks.of(list(times.ravel()), list(numbers), list(of_pass[numbers])))
    return sides


def central(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize("between", [0.0, 0.02])
def test_joint_medians_are_as_wide_as_the_intervals(between: float) -> None:
    widths = {"joint": [], "interval": [], "ratio": [], "contrast": []}
    for seed in range(20):
        top, bottom = of_rounds(seed, (2.0, 1.0), between=between)
        draws = joint_medians((top, bottom), seed=seed)
        assert draws is not None
        assert draws.shape == (2000, 2)
        low, high = central(draws[:, 0])
        one, both = of_median(top), estimated(top, bottom)
        widths["joint"].append(math.log(high / low))
        widths["interval"].append(math.log(one.high / one.low))
        low, high = central(draws[:, 0] / draws[:, 1])
        widths["contrast"].append(math.log(high / low))
        widths["ratio"].append(math.log(both.high / both.low))
    assert 0.6 < np.median(widths["joint"]) / np.median(widths["interval"]) < 1.7
    assert 0.8 < np.median(widths["contrast"]) / np.median(widths["ratio"]) < 1.7


@pytest.mark.parametrize(("between", "drift"), [more_of_the_same(0.0, 0.0), (0.02, 0.0), (0.0, 0.05)])
def test_joint_medians_predict_a_repeated_run(between: float, drift: float) -> None:
    scales, found = (1.5, 1.2, 1.0), 0
    for seed in range(REPEATS):
        draws = joint_medians(of_rounds(seed, scales, between=between, drift=drift), draws=500, seed=seed)
        assert draws is not None
        first, _, last = (
            float(np.median(side.times)) for side in of_rounds(seed + 10_000, scales, between=between, drift=drift)
        )
        low, high = central(draws[:, 0] / draws[:, 2])
        found += low <= first / last <= high
    assert found >= 0.92 * REPEATS


def test_what_sides_have_in_common_cancels_in_joint_medians() -> None:
    top, bottom = pair(1, ratio=1.3, shared=0.1, own=0.001, passes=40)
    draws = joint_medians((top, bottom))
    assert draws is not None
    apart = np.std(np.log(draws[:, 0] / np.roll(draws[:, 1], 1)))
    assert np.std(np.log(draws[:, 0] / draws[:, 1])) < 0.5 * apart
    assert np.median(draws[:, 0] / draws[:, 1]) == pytest.approx(1.3, rel=0.03)


def test_joint_medians_need_common_passes_and_sides() -> None:
    early = Blocks.of([1.0] * 8, list(range(8)))
    late = Blocks.of([1.0] * 8, list(range(3, 11)))
    assert joint_medians((early, late)) is None
    same = joint_medians((early, early), draws=10)
    assert same is not None
    assert np.all(same == 1.0)
    with pytest.raises(ValueError, match="got 0 sides"):
        joint_medians(())


def test_joint_medians_are_no_narrower_than_the_clocks_step() -> None:
    coarse = Blocks.of([1e-6] * 24, list(range(24)), step_s=1e-7)
    draws = joint_medians((coarse,))
    assert draws is not None
    assert central(draws[:, 0])[1] / 1e-6 > 1.08
