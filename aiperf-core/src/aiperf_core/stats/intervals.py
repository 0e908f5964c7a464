"""Medians, ratios and other contrasts of medians, and their intervals.

Samples taken close together share the state of the machine, so they are not independent; blocks are. The bootstrap
therefore draws passes first (a pass is one block of every implementation), the same for all sides of a contrast, then
samples within each block (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). For large
data, integer weights stand for the number of draws: Poisson numbers of mean 1 (Hanley and MacGibbon, Computer Methods
and Programs in Biomedicine 83, 2006).

A fresh process differs from the one before (addresses, page colours), which no number of samples within one process
shows. Rounds are too few to draw from, so their variance is estimated as in a one-way random-effects analysis: the
variance of the values of the rounds beyond that of their passes (Searle, Casella and McCulloch, Variance Components,
1992, chapter 3). As passes and rounds are few, the interval is widened by the ratio of Student's t to the normal
quantile at the degrees of freedom of the sum (Satterthwaite, Biometrics Bulletin 2, 1946).

The sides of a contrast drift together. A single time drifts with the machine, more slowly than passes follow each
other, so that passes are worth less than their number. The autocorrelation of quarters of the rounds gives the worth of
their mean (Bayley and Hammersley, Supplement to the Journal of the Royal Statistical Society 8, 1946). The degrees of
freedom are then those of the rounds.

An interval predicts a repeated run: 95 % of repeated runs find their median within it. A repeated run has the same
error as this one, so the variance counts twice. No interval is narrower than the step of the clock.

Wild samples, and few, make intervals that nothing could confirm. An end lies at most `BEYOND_SEEN` times beyond what
the shortest and the longest sample allow. Of few passes an interval may still be too short, so that a difference must
show in the order of the times as well (`unclear_order`).
"""

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Verdict
from aiperf_core.stats.distributions import NORMAL, t_expansion, t_quantile
from aiperf_core.stats.draws import DRAWS, Floats
from aiperf_core.stats.mann_whitney import chance_of_excess, chance_of_signs

_Key = tuple[bytes, bytes, bytes, float, bool]

CONFIDENCE = 0.95
# Largest resampled array, in elements; fewer draws are made instead of a larger one.
_MAX_ELEMENTS = 40_000_000
_MIN_DRAWS = 400
# Number of passes from which drawing samples within passes would add next to nothing.
_MANY_PASSES = 64
# Number of samples, or passes, from which each is drawn on its own by a Poisson number.
_MANY_SAMPLES, _POISSON_PASSES = 20_000, 1000
# This run's error, and that of the run which repeats it.
_RUNS = 2
# Weights that are processed together, to bound the memory.
_TOGETHER = 4_000_000
# OpenBLAS computes a matrix product of at most this many multiplications in one thread (interface/gemm.c). More threads
# would spin for a while afterwards, and take processors from what is being measured.
_ONE_THREAD = 1 << 18
# Least number of passes for an interval: of fewer, not even the shortest and the longest have the median between them
# with 95 % (1 - 2 / 2^n).
MIN_PASSES = 6
# How far beyond the shortest and the longest sample an interval of a time may end, as a factor.
BEYOND_SEEN = 2.0
# The largest chance that times of one code have the order of a difference that is believed.
BY_CHANCE = 0.002
# Parts of a round that are compared with each other.
_PARTS = 4


@frozen
class Blocks:
    """The times of one implementation, in seconds, in the order taken.

    passes, rounds: the pass and the round of each sample. Both only grow, and a pass lies in one round.
    step_s: the step of the clock.
    exact: whether intervals have the exact quantile of Student's t; older bundles have its expansion.
    """

    times: Floats
    passes: NDArray[np.int64]
    rounds: NDArray[np.int64]
    step_s: float = 0.0
    exact: bool = True

    @staticmethod
    def of(
        times: list[float],
        passes: list[int],
        rounds: list[int] | None = None,
        step_s: float = 0.0,
        *,
        exact: bool = True,
    ) -> "Blocks":
        """Blocks from lists of one length; all in one round where none are given."""
        return Blocks(
            np.asarray(times, dtype=np.float64),
            np.asarray(passes, dtype=np.int64),
            np.asarray(rounds or [0] * len(times), dtype=np.int64),
            step_s,
            exact,
        )

    @property
    def key(self) -> "_Key":
        """The same as bytes, for comparison and caching."""
        return self.times.tobytes(), self.passes.tobytes(), self.rounds.tobytes(), self.step_s, self.exact

    @staticmethod
    def of_key(key: "_Key") -> "Blocks":
        """The blocks of a `key`."""
        times, passes, rounds, step_s, exact = key
        return Blocks(
            np.frombuffer(times), np.frombuffer(passes, np.int64), np.frombuffer(rounds, np.int64), step_s, exact
        )

    @property
    def present(self) -> NDArray[np.int64]:
        """The passes with at least one sample."""
        return np.unique(self.passes)

    @property
    def medians(self) -> Floats:
        """The median of each pass that is present."""
        ordered = self.times[np.lexsort((self.times, self.passes))]
        starts = np.searchsorted(self.passes, self.present)
        lengths = np.diff(starts, append=len(ordered))
        found: Floats = (ordered[starts + (lengths - 1) // 2] + ordered[starts + lengths // 2]) / 2
        return found

    def only(self, keep: NDArray[np.bool_]) -> "Blocks":
        """The samples for which `keep` is true."""
        return Blocks(self.times[keep], self.passes[keep], self.rounds[keep], self.step_s, self.exact)


def median_interval(blocks: Blocks, seed: int = 0) -> Estimate | None:
    """The median with its interval, or None where there are fewer than `MIN_PASSES` passes."""
    return _remembered((blocks.key,), (1.0,), seed)


def ratio_interval(top: Blocks, bottom: Blocks, seed: int = 0) -> Estimate | None:
    """`median(top) / median(bottom)` with its interval, over the passes that both have; None with too few of them."""
    return log_contrast((top, bottom), (1, -1), seed)


def log_contrast(sides: Sequence[Blocks], weights: Sequence[float], seed: int = 0) -> Estimate | None:
    """The product of the sides' medians, each to the power of its weight, with its interval.

    Its logarithm is the sum of the weighted logarithms of the medians. All sides share the draws of the passes that all
    of them have, so the interval counts what they have in common: of times `tA`, `tB`, `tAB` and `t0` that took turns,
    `log_contrast((tA, tB, tAB, t0), (1, 1, -1, -1))` is how far the gain of A and B together exceeds the product of
    their gains. None where the sides have fewer than `MIN_PASSES` passes in common. Raises ValueError unless each side
    has a finite weight other than 0.
    """
    if not sides or len(sides) != len(weights) or not all(weight and math.isfinite(weight) for weight in weights):
        raise ValueError(f"{len(sides)} sides with the weights {weights}; each side takes a finite weight other than 0")
    common = functools.reduce(np.intersect1d, (side.present for side in sides))
    kept = (side.only(np.isin(side.passes, common)) for side in sides)
    return _remembered(tuple(side.key for side in kept), tuple(float(weight) for weight in weights), seed)


def joint_medians(sides: Sequence[Blocks], draws: int = DRAWS, seed: int = 0) -> Floats | None:
    """Draws of the medians that a repeated run would find, for all sides together: `(draws, sides)`, in seconds.

    The sides share the draws of the passes that all of them have, so what they have in common cancels in any comparison
    of two columns. Each column varies as widely as the side's interval: the variance counts twice, differences between
    rounds and the drift of the machine are added. Differences between rounds are estimated as covariances of the sides,
    of which the positive part counts. The drift is one factor for all sides of a draw.

    None where the sides have fewer than `MIN_PASSES` passes in common. Raises ValueError without sides or draws.
    """
    if not sides or draws < 1:
        raise ValueError(f"joint draws need sides and draws; got {len(sides)} sides and {draws} draws")
    present = functools.reduce(np.intersect1d, (side.present for side in sides))
    if len(present) < MIN_PASSES:
        return None
    kept = [side.only(np.isin(side.passes, present)) for side in sides]
    rng = np.random.default_rng(seed)
    of_pass = kept[0].rounds[np.searchsorted(kept[0].passes, present)]
    rounds = np.unique(of_pass)
    drawn = _drawn_medians(rng, kept, present, of_pass, draws, seed)
    centre = np.log([float(np.median(side.times)) for side in kept])
    apart = np.log(np.stack(drawn, axis=1)) - centre
    # As for a mean of n values: resampling n of them shows (n - 1) / n of the variance.
    freedom = max(len(present) - len(rounds), 1)
    apart *= math.sqrt(len(present) / freedom) * _tails(rng, draws, freedom)
    if len(rounds) > 1:
        noise = np.atleast_2d(np.cov(apart, rowvar=False))
        few = _tails(rng, draws, len(rounds) - 1)
        apart = apart + _between_sides(kept, rounds, noise, rng, draws) * few
        # The machine's drift: as in the interval of a single time, no less than what passes show, with few degrees.
        drift = max(float(np.mean([_drift(side) for side in kept])), float(np.mean(np.diag(noise))))
        apart = apart + math.sqrt(drift) * rng.standard_normal((draws, 1)) * few
    steps = np.array([math.log1p(side.step_s / float(np.median(side.times))) for side in kept])
    found: Floats = np.exp(centre + math.sqrt(_RUNS) * apart + steps * rng.uniform(-1, 1, size=apart.shape))
    least = np.array([side.times.min() for side in kept]) / BEYOND_SEEN
    most = np.array([side.times.max() for side in kept]) * BEYOND_SEEN
    return np.clip(found, least, most)


def _tails(rng: np.random.Generator, draws: int, freedom: int) -> Floats:
    """Factors that turn normal numbers into those of Student's t, one for all sides of a draw: (draws, 1)."""
    return np.sqrt(freedom / rng.chisquare(freedom, size=(draws, 1)))


def _between_sides(
    sides: list[Blocks], rounds: NDArray[np.int64], noise: Floats, rng: np.random.Generator, draws: int
) -> Floats:
    """Draws of what differences between rounds add to the logarithms of the medians: (draws, sides)."""
    each = [[math.log(float(np.median(side.times[side.rounds == which]))) for which in rounds] for side in sides]
    seen = np.atleast_2d(np.cov(np.array(each), ddof=1)) / len(rounds)
    values, vectors = np.linalg.eigh(seen - noise)
    scale = np.sqrt(np.maximum(values, 0.0))
    found: Floats = (rng.standard_normal((draws, len(sides))) * scale) @ vectors.T
    return found


@functools.lru_cache(maxsize=64)
def _remembered(keys: tuple["_Key", ...], weights: tuple[float, ...], seed: int) -> Estimate | None:
    """The interval of these sides. Each verdict and check that a row bears on asks for the row's interval."""
    return _interval([Blocks.of_key(key) for key in keys], weights, seed)


def _interval(sides: list[Blocks], weights: tuple[float, ...], seed: int) -> Estimate | None:
    """The interval of a contrast of sides with the same passes; of one side, that of its median."""
    present = sides[0].present
    if len(present) < MIN_PASSES:
        return None
    rng = np.random.default_rng(seed)
    rounds = np.unique(sides[0].rounds)
    # The round of each pass: that of its first sample.
    of_pass = sides[0].rounds[np.searchsorted(sides[0].passes, present)]
    draws = _draws_for(max(len(side.times) for side in sides))
    medians = _drawn_medians(rng, sides, present, of_pass, draws, seed)
    resampled = _combined(medians, weights)
    value = float(_combined([np.median(side.times) for side in sides], weights))
    within = float(np.var(np.log(resampled)))
    each = [
        float(_combined([np.median(side.times[side.rounds == which]) for side in sides], weights)) for which in rounds
    ]
    # A time drifts with the machine; the sides of a contrast drift together.
    drift = _drift(sides[0], weights[0]) if len(sides) == 1 and len(rounds) > 1 else None
    between, freedom = _between(each, max(within, drift or 0.0)), len(present) - len(rounds)
    exact = all(side.exact for side in sides)
    wide = _widened(value, resampled, within, between, freedom, len(rounds), drift, ratio=len(sides) > 1, exact=exact)
    pairs = zip(sides, weights, strict=True)
    step = sum(abs(weight) * side.step_s / float(np.median(side.times)) for side, weight in pairs)
    least, most = _seen(sides, weights)
    return Estimate(value, max(wide.low / (1 + step), least), min(wide.high * (1 + step), most))


def _drawn_medians(
    rng: np.random.Generator,
    sides: list[Blocks],
    present: NDArray[np.int64],
    of_pass: NDArray[np.int64],
    draws: int,
    seed: int,
) -> list[Floats]:
    """Medians of resampled data of each side, on shared draws of the passes."""
    if len(present) >= _MANY_PASSES:
        drawn = _drawn_weights(seed, of_pass.tobytes(), draws)
        return [_weighted_medians(side, present, drawn) for side in sides]
    if max(len(side.times) for side in sides) >= _MANY_SAMPLES:
        drawn = _weigh_passes(rng, of_pass, draws)
        return [_weighted_medians_within(rng, side, present, drawn) for side in sides]
    chosen = _draw_passes(rng, of_pass, draws)
    return [_resampled_medians(rng, side, present, chosen) for side in sides]


def resampled_medians(rng: np.random.Generator, blocks: Blocks, draws: int) -> Floats:
    """Medians of the samples of passes that were drawn within their rounds: (draws,)."""
    of_pass = blocks.rounds[np.searchsorted(blocks.passes, blocks.present)]
    return _weighted_medians(blocks, blocks.present, _weigh_passes(rng, of_pass, draws))


def _seen(sides: list[Blocks], weights: tuple[float, ...]) -> tuple[float, float]:
    """The least and the greatest contrast of times that are near to a sample."""
    shortest = [float(side.times.min()) / BEYOND_SEEN for side in sides]
    longest = [float(side.times.max()) * BEYOND_SEEN for side in sides]
    ends = list(zip(shortest, longest, weights, strict=True))
    least = [short if weight > 0 else long for short, long, weight in ends]
    most = [long if weight > 0 else short for short, long, weight in ends]
    return float(_combined(least, weights)), float(_combined(most, weights))


def _combined(values: Sequence[Any], weights: tuple[float, ...]) -> Any:
    """The product of the values, each to the power of its weight. Weights 1 and -1 give exactly the quotient."""
    powers = [
        value if abs(weight) == 1 else value ** abs(weight) for value, weight in zip(values, weights, strict=True)
    ]
    top = [power for power, weight in zip(powers, weights, strict=True) if weight > 0]
    bottom = [power for power, weight in zip(powers, weights, strict=True) if weight < 0]
    product = functools.reduce(operator.mul, top, 1.0)
    return product / functools.reduce(operator.mul, bottom) if bottom else product


def _between(each: list[float], within: float) -> float:
    """The variance that differences between rounds add to the logarithm of the whole.

    `each` are the values of the rounds. The part of the passes in the variance of their mean is about `within`, the
    variance of the whole without the rounds, and is subtracted.
    """
    if len(each) < 2:
        return 0.0
    return max(0.0, float(np.var(np.log(each), ddof=1)) / len(each) - within)


def _drift(one: Blocks, weight: float = 1.0) -> float:
    """The variance of the logarithm of the whole, from quarters of the rounds and their autocorrelation.

    At most the variance of a single quarter, which is that of quarters that are all alike.
    """
    parts = []
    for which in np.unique(one.rounds):
        inside = one.only(one.rounds == which)
        some = (inside.times[np.isin(inside.passes, few)] for few in np.array_split(inside.present, _PARTS))
        parts += [math.log(float(np.median(times))) for times in some if len(times)]
    apart, count = np.array(parts) - np.mean(parts), len(parts)
    squares = weight**2 * float(apart @ apart)
    if squares == 0:
        return 0.0
    alike = weight**2 * float(apart[1:] @ apart[:-1]) / squares
    # Corrected for the bias of short series (Marriott and Pope, Biometrika 41, 1954).
    alike = min(max(0.0, alike + (1 + 3 * alike) / count), 1.0)
    lags = np.arange(1, count)
    worth = count / (1 + 2 * float(((1 - lags / count) * alike**lags).sum()))
    # Parts that are alike differ less from their own mean than from the true mean.
    seen = squares / count
    return seen / (worth - 1) if worth > 2 else seen


def unclear_order(top: Blocks, bottom: Blocks, said: Verdict) -> float | None:
    """The chance that times of one code have as clear an order as these, where it is too large for this verdict.

    None where it is small enough, and for verdicts other than FASTER and SLOWER.

    Of few passes, some of them many times slower than the others, an interval does not show all that may happen: other
    work disturbed half of one side's passes, and none of the other's. Ranks do not depend on how slow those were. The
    medians of the passes that both have are compared: by the rank test, and pass by pass by the sign test, which does
    not see a drift of the machine. The smaller of both chances counts.
    """
    if said not in (Verdict.FASTER, Verdict.SLOWER):
        return None
    common = np.intersect1d(top.present, bottom.present)
    slow, fast = (top, bottom) if said is Verdict.FASTER else (bottom, top)
    above, below = (side.only(np.isin(side.passes, common)).medians for side in (slow, fast))
    signs = int((above > below).sum())
    chance = min(chance_of_excess(above.tolist(), below.tolist()), chance_of_signs(signs, len(common)))
    return chance if chance > BY_CHANCE else None


def half_width(estimate: Estimate) -> float:
    """Half the interval's width relative to the value."""
    return (estimate.high - estimate.low) / (2 * estimate.value)


def verdict(speedup: Estimate, floor: float) -> Verdict:
    """The verdict that an interval of the speedup allows. `floor` is the smallest relative difference that matters."""
    if speedup.low > 1 + floor:
        return Verdict.FASTER
    if speedup.high < 1 - floor:
        return Verdict.SLOWER
    if speedup.low >= 1 - floor and speedup.high <= 1 + floor:
        return Verdict.SAME
    return Verdict.INCONCLUSIVE


def _draws_for(samples: int) -> int:
    return int(np.clip(_MAX_ELEMENTS // max(samples, 1), _MIN_DRAWS, DRAWS))


def _draw_passes(rng: np.random.Generator, of_pass: NDArray[np.int64], draws: int) -> NDArray[np.int64]:
    """Indices of passes, drawn with replacement within each round: (draws, passes)."""
    parts = []
    for which in np.unique(of_pass):
        (members,) = np.nonzero(of_pass == which)
        parts.append(members[rng.integers(0, len(members), size=(draws, len(members)))])
    return np.concatenate(parts, axis=1)


def _resampled_medians(
    rng: np.random.Generator, blocks: Blocks, present: NDArray[np.int64], draws: NDArray[np.int64]
) -> Floats:
    """Medians of resampled data: the drawn passes, and within each as many samples as a block usually has."""
    starts = np.searchsorted(blocks.passes, present, side="left")
    lengths = np.searchsorted(blocks.passes, present, side="right") - starts
    per_block = max(1, int(np.median(lengths)))
    # The places of the samples among all of them: numpy sorts numbers of 16 bits by their digits where it is told to
    # keep an order, five times as fast as it sorts times.
    order, ordered = np.argsort(blocks.times), np.sort(blocks.times)
    ranks = np.empty(len(order), dtype=np.uint16 if len(order) < 1 << 16 else np.uint32)
    ranks[order] = np.arange(len(order))
    kind: Literal["stable"] | None = "stable" if ranks.dtype == np.uint16 else None
    medians, drawn = np.empty(len(draws)), draws.shape[1] * per_block
    step = max(1, _TOGETHER // 32 // drawn)
    for first in range(0, len(draws), step):
        chosen = draws[first : first + step, :, None]
        within = rng.random((*chosen.shape[:2], per_block))
        within *= lengths[chosen]
        index = within.astype(np.int64)
        index += starts[chosen]
        places = ranks.take(index, mode="clip").reshape(len(chosen), -1)
        places.sort(axis=1, kind=kind)
        medians[first : first + step] = ordered[places[:, (drawn - 1) // 2 : drawn // 2 + 1]].mean(axis=1)
    return medians


@functools.lru_cache(maxsize=2)
def _drawn_weights(seed: int, of_pass: bytes, draws: int) -> NDArray[np.uint8]:
    """The weights of passes in these rounds. The rows of a target have the same passes, as a rule."""
    return _weigh_passes(np.random.default_rng(seed), np.frombuffer(of_pass, np.int64), draws)


def _weigh_passes(rng: np.random.Generator, of_pass: NDArray[np.int64], draws: int) -> NDArray[np.uint8]:
    """How often each pass was drawn: (draws, passes)."""
    passes = len(of_pass)
    if passes >= _POISSON_PASSES:
        return _poisson(rng, (draws, passes))
    chosen = _draw_passes(rng, of_pass, draws)
    chosen += np.arange(draws)[:, None] * passes
    return np.bincount(chosen.ravel(), minlength=draws * passes).reshape(draws, passes).astype(np.uint8)


def _weighted_medians(blocks: Blocks, present: NDArray[np.int64], weights: NDArray[np.uint8]) -> Floats:
    """Medians of resampled data, as weights of the passes on the sorted times."""
    order = np.argsort(blocks.times)
    found: Floats = blocks.times[order][_middles(np.searchsorted(present, blocks.passes[order]), weights)]
    return found


def _weighted_medians_within(
    rng: np.random.Generator, blocks: Blocks, present: NDArray[np.int64], weights: NDArray[np.uint8]
) -> Floats:
    """The same where passes are few: samples within them are drawn too."""
    order = np.argsort(blocks.times)
    times, of_sample = blocks.times[order], np.searchsorted(present, blocks.passes[order])
    medians = np.empty(len(weights))
    for number, of_pass in enumerate(weights):
        summed = np.cumsum(of_pass[of_sample] * _poisson(rng, (len(times),)), dtype=np.int64)
        medians[number] = times[np.searchsorted(summed, summed[-1] / 2)]
    return medians


def _middles(of_sample: NDArray[np.int64], weights: NDArray[np.uint8]) -> NDArray[np.int64]:
    """For each row of weights of the passes, the first sample up to which half of the weight lies.

    `of_sample` has the pass of each sample. The samples are divided into stretches of one length. A matrix product
    finds the stretch of the middle, and only that stretch is summed sample by sample.
    """
    samples, passes = len(of_sample), weights.shape[1]
    stretches = max(1, min(math.isqrt(samples), _ONE_THREAD // (4 * passes)))
    length = -(-samples // stretches)
    counts = np.bincount(of_sample * stretches + np.arange(samples) // length, minlength=passes * stretches)
    # Whole numbers, exact in double precision.
    below = np.cumsum(counts.reshape(passes, stretches), axis=1).astype(np.float64)
    some = max(1, _ONE_THREAD // below.size)
    parts = [weights[first : first + some].astype(np.float64) @ below for first in range(0, len(weights), some)]
    up_to = np.concatenate(parts)
    half = up_to[:, -1:] / 2
    stretch = (up_to < half).sum(axis=1)
    before = np.where(stretch > 0, np.take_along_axis(up_to, np.maximum(stretch - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    found = np.empty(len(weights), dtype=np.int64)
    step = max(1, _TOGETHER // length)
    for first in range(0, len(weights), step):
        now = slice(first, first + step)
        index = np.minimum(stretch[now, None] * length + np.arange(length), samples - 1)
        summed = np.cumsum(np.take_along_axis(weights[now], of_sample[index], axis=1), axis=1, dtype=np.int64)
        found[now] = stretch[now] * length + (before[now, None] + summed < half[now]).sum(axis=1)
    return found


def _poisson(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Poisson numbers of mean 1, from a table of its quantiles in steps of 2^-16."""
    return _POISSON[rng.integers(0, len(_POISSON), size=shape, dtype=np.uint16)]


def _poisson_quantiles() -> NDArray[np.uint8]:
    below = np.cumsum([math.exp(-1) / math.factorial(count) for count in range(10)])
    return np.searchsorted(below, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


_POISSON = _poisson_quantiles()


def _widened(
    value: float,
    resampled: Floats,
    within: float,
    between: float,
    freedom: int,
    rounds: int,
    drift: float | None,
    *,
    ratio: bool,
    exact: bool,
) -> Estimate:
    """The interval of a value from resampled values and from the variance between rounds.

    `within` has `freedom` degrees of freedom, `between` one less than the number of rounds. `drift` is a lower bound of
    `within`, which then has the degrees of freedom of `between`; None where drift does not count.
    """
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(one) for one in np.quantile(resampled, [tail, 1 - tail]))
    # As for a mean of n values: resampling n of them shows (n - 1) / n of the variance.
    within_true = max(within * (freedom + rounds) / max(freedom, 1), drift or 0.0)
    total = _RUNS * (within_true + between)
    if total == 0:
        return Estimate(value, value, value)
    parts = within_true**2 / max(freedom, 1) + (between**2 / (rounds - 1) if rounds > 1 else 0.0)
    # The rounds alone decide then, and they are few.
    few = drift is not None or (between and not ratio)
    quantile = (t_quantile if exact else t_expansion)(
        1 - tail, rounds - 1 if few else max(1.0, (within_true + between) ** 2 / parts)
    )
    # Times and ratios are positive: widened on a logarithmic scale, an interval stays so. The resampled one contains
    # the value but for the discreteness of medians.
    down, up = min(0.0, math.log(low / value)), max(0.0, math.log(high / value))
    if within == 0:
        down, up = -NORMAL * math.sqrt(total), NORMAL * math.sqrt(total)
        within = total
    factor = quantile / NORMAL * math.sqrt(total / within)
    return Estimate(value, value * math.exp(factor * down), value * math.exp(factor * up))
