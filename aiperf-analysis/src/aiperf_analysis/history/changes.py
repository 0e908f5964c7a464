"""Steps and drift in a series of runs.

A step is found by the largest weighted difference of the means on both sides of a split point, and is held against the
same figure of the series in random orders. The series is then split there, and both parts are searched (binary
segmentation; Scott and Knott, Biometrics 30, 1974). Neighbours of a machine's runs are alike; where they are, blocks of
runs change places instead of single runs, and the rest of the likeness, at the ends of blocks, widens the null.

What deviates from the textbook, and why: the split points nearer to an end than `FULL_SIDE` runs count for a little
less, because their many chances of a large difference cost the others power. A step at the very end is what
`history.newest` looks for.
"""

import math
from itertools import pairwise

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_analysis.history.noise import alikeness, finite_exp, long_run, variances
from aiperf_core.measurements import Estimate
from aiperf_core.stats.distributions import t_quantile
from aiperf_core.stats.draws import Floats

ALPHA = 0.01
PERMUTATIONS = 999
LEAST_SIDE = 3
# From this number of runs on the shorter side on, a split point has its whole weight.
FULL_SIDE = 10
_EDGE_POWER = 0.2
# Fewer blocks have too few orders to reach a probability of `ALPHA`: 2 / C(10, 5) is 0.008.
_LEAST_BLOCKS = 10
# In standard errors by the successive differences. An autocorrelation of 0.5 makes these too small by a factor of 2.4;
# the largest difference of 100 runs without a step rarely reaches this even then.
_FAR_BEYOND_NOISE = 8.0
_BATCH = 99
_MOST_ELEMENTS = 200_000  # of an array of random orders: it stays in the caches
DRAWS = 999
# Level of the interval of a drift, which is looked for in every series.
DRIFT_LEVEL = 0.99
_MOST_PAIRS = 500_000
# The difference of the information criterion that Kass and Raftery (JASA 90, 1995) call very strong.
STRONG_EVIDENCE = 10.0
_CONFIDENCE = 0.95


@frozen
class Segment:
    """Runs between two steps: from `start`, up to `stop` exclusive.

    level: the logarithm of their mean. error: its standard error.
    """

    start: int
    stop: int
    level: float
    error: float

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.stop - self.start


@frozen
class Step:
    """A change of level.

    at: the first run after it.
    first, last: the range of `at`, with 95 %.
    ratio: the level after it divided by the level before, with its interval.
    p: the probability of as large a step among runs in a random order.
    """

    at: int
    first: int
    last: int
    ratio: Estimate
    p: float


@frozen
class Drift:
    """A steady change of a segment.

    per_run: the factor from one run to the next, with its interval of 99 %.
    whole: the factor over the segment.
    """

    per_run: Estimate
    whole: float


@frozen
class Course:
    """What a series does.

    segments: at least one; their number is one more than that of the steps.
    drift: of the current segment, or of the whole series where a straight line fits better than steps.
    sd: the standard deviation of a run around its level, on the logarithmic scale.
    alike: the autocorrelation of neighbours around the levels; 0 where they are not alike.
    p: the probability of the largest step of the whole series among runs in a random order; 1 for too few runs.
    """

    segments: list[Segment]
    steps: list[Step]
    drift: Drift | None
    sd: float
    alike: float
    p: float


def course(
    values: Floats,
    within: Floats,
    floor: float,
    seed: int = 0,
    *,
    alpha: float = ALPHA,
    permutations: int = PERMUTATIONS,
    levels_only: bool = False,
) -> Course:
    """The course of a series of logarithms with the variances of their errors.

    floor: the smallest relative step that matters.
    permutations: random orders of a test; more of them resolve smaller probabilities, for many series.
    levels_only: leave out `steps` and `drift`, whose intervals take time.
    """
    rng = np.random.default_rng(seed)
    spread = variances(values, within)
    found: dict[int, float] = {}
    p = _search(values, spread, 0, len(values), rng, found, alpha, permutations)
    edges = _with_floor(values, spread, [0, *sorted(found), len(values)], floor)
    inner = edges[1:-1]
    line = _drift(values, 0, len(values), floor) if inner or not levels_only else None
    if line is not None and inner and _line_fits_better(values, spread, edges):
        edges, inner = [0, len(values)], []
    residuals = values - _levels(values, spread, edges)
    freedom = max(1, len(values) - len(edges) + 1)
    sd = math.sqrt(float(residuals @ residuals) / freedom)
    alike = alikeness(residuals, len(edges) - 1)
    segments = [_segment(values, spread, start, stop, sd, alike) for start, stop in _pairs(edges)]
    if levels_only:
        return Course(segments, [], None, sd, alike, p)
    steps = [
        _step(values, spread, edges[place - 1], edges[place], edges[place + 1], found[edges[place]], rng)
        for place in range(1, len(edges) - 1)
    ]
    drift = line if not inner else _drift(values, edges[-2], edges[-1], floor)
    return Course(segments, steps, drift, sd, alike, p)


def largest_step(
    values: Floats, spread: Floats, rng: np.random.Generator, alpha: float = ALPHA, permutations: int = PERMUTATIONS
) -> tuple[int, float]:
    """The split point with the largest difference, and its probability among runs in a random order.

    spread: the variance of each run. The permutations end early once the probability cannot fall below `alpha`.
    """
    weights = 1 / spread
    there = _differences(values, weights)
    best = int(there.argmax())
    split = best + LEAST_SIDE
    root = np.sqrt(spread)
    residuals = (values - np.average(values, weights=weights)) / root
    squares = float(residuals @ residuals)
    observed = float(_studentised(there, squares).max())
    if squares == 0 or observed <= 0:
        return split, 1.0
    freely = _freely_split(values, spread, 0, len(values))
    around = (values - _levels(values, spread, freely)) / root
    block, widened = _blocks(alikeness(around, len(freely) - 1), len(values))
    beyond = drawn = 0
    limit = alpha * (permutations + 1)
    while drawn < permutations:
        batch = min(_BATCH if drawn == 0 else permutations, permutations - drawn, _MOST_ELEMENTS // len(values) + 1)
        mixed = residuals[_orders(rng, batch, len(values), block)] * root
        null = _studentised(_differences(mixed, weights), squares).max(axis=-1) * widened
        # Rounding must not decide between equal figures.
        beyond, drawn = beyond + int((null >= observed * (1 - 1e-9)).sum()), drawn + batch
        if beyond >= limit:
            break
    return split, (beyond + 1) / (drawn + 1)


def _search(
    values: Floats,
    spread: Floats,
    start: int,
    stop: int,
    rng: np.random.Generator,
    found: dict[int, float],
    alpha: float,
    permutations: int,
) -> float:
    """Add the steps between `start` and `stop` to `found`, and return the probability of the largest."""
    if stop - start < 2 * LEAST_SIDE:
        return 1.0
    split, p = largest_step(values[start:stop], spread[start:stop], rng, alpha, permutations)
    if p <= alpha:
        found[start + split] = p
        _search(values, spread, start, start + split, rng, found, alpha, permutations)
        _search(values, spread, start + split, stop, rng, found, alpha, permutations)
    return p


def _freely_split(values: Floats, spread: Floats, start: int, stop: int) -> list[int]:
    """The edges of a part split at its largest difference, and at further ones that are far beyond noise.

    Around these levels, neighbours are alike through the noise alone. Further steps would make them alike too.
    """
    split = start + int(_differences(values[start:stop], 1 / spread[start:stop]).argmax()) + LEAST_SIDE
    edges = [start, split, stop]
    for left, right in _pairs(edges):
        if right - left >= 2 * LEAST_SIDE:
            differences = _differences(values[left:right], 1 / spread[left:right])
            if float(differences.max()) > _FAR_BEYOND_NOISE:
                edges += _freely_split(values, spread, left, right)
    return sorted(set(edges))


def _differences(values: Floats, weights: Floats) -> Floats:
    """The absolute differences of the weighted means at each split point, in standard errors: (..., split points)."""
    places = np.arange(LEAST_SIDE, values.shape[-1] - LEAST_SIDE + 1) - 1
    up_to = np.cumsum(weights)
    sums = np.cumsum(values * weights, axis=-1)
    left, right = up_to[places], up_to[-1] - up_to[places]
    before = sums[..., places]
    after = sums[..., -1:] - before
    found: Floats = np.abs(before / left - after / right) / np.sqrt(1 / left + 1 / right)
    return found


def _studentised(differences: Floats, squares: float) -> Floats:
    """Differences in standard errors of the series without them, with the weights of their split points.

    squares: the sum of the squared residuals of the series without a step.
    """
    sides = LEAST_SIDE + np.arange(differences.shape[-1])
    weighted = differences * np.minimum(1.0, np.minimum(sides, sides[::-1]) / FULL_SIDE) ** _EDGE_POWER
    rest: Floats = np.sqrt(np.maximum(1 - weighted**2 / squares, 1e-12)) if squares > 0 else np.ones_like(weighted)
    return weighted / rest


def _blocks(alike: float, runs: int) -> tuple[int, float]:
    """The length of blocks that change places, and the factor for the likeness that they cut at their ends."""
    if alike == 0:
        return 1, 1.0
    length = math.ceil(runs ** (1 / 3))
    if runs / length < _LEAST_BLOCKS:
        length = 1
    lags = np.arange(1, length)
    kept = 1 + 2 * float(((1 - lags / length) * alike**lags).sum())
    return length, math.sqrt(long_run(alike) / kept)


def _orders(rng: np.random.Generator, draws: int, runs: int, block: int) -> NDArray[np.int64]:
    """Random orders of runs whose blocks stay together: (draws, runs)."""
    of_run = np.arange(runs) // block
    keys = rng.random((draws, int(of_run[-1]) + 1))[:, of_run]
    return np.argsort(keys, axis=1, kind="stable")


def _pairs(edges: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(edges))


def _mean(values: Floats, spread: Floats, start: int, stop: int) -> float:
    return float(np.average(values[start:stop], weights=1 / spread[start:stop]))


def _levels(values: Floats, spread: Floats, edges: list[int]) -> Floats:
    """The level of each run."""
    means = [_mean(values, spread, start, stop) for start, stop in _pairs(edges)]
    return np.repeat(means, np.diff(edges))


def _with_floor(values: Floats, spread: Floats, edges: list[int], floor: float) -> list[int]:
    """The edges without steps below the floor, of which the smallest goes first."""
    while len(edges) > 2:
        means = [_mean(values, spread, start, stop) for start, stop in _pairs(edges)]
        sizes = np.abs(np.expm1(np.diff(means)))
        least = int(sizes.argmin())
        if sizes[least] >= floor:
            break
        edges = edges[: least + 1] + edges[least + 2 :]
    return edges


def _segment(values: Floats, spread: Floats, start: int, stop: int, sd: float, alike: float) -> Segment:
    error = sd * math.sqrt(long_run(alike) / (stop - start))
    return Segment(start, stop, _mean(values, spread, start, stop), error)


def _step(values: Floats, spread: Floats, start: int, at: int, stop: int, p: float, rng: np.random.Generator) -> Step:
    """The step between two segments, by the bootstrap of the residuals of both, whose split point is sought anew."""
    some, weights = values[start:stop], 1 / spread[start:stop]
    runs, split = stop - start, at - start
    levels = _levels(some, spread[start:stop], [0, split, runs])
    root = np.sqrt(spread[start:stop])
    # Residuals around two fitted levels are too small by these two degrees of freedom.
    residuals = (some - levels) / root * math.sqrt(runs / (runs - 2))
    length = _blocks(alikeness(residuals, 2), runs)[0]
    starts = rng.integers(0, runs, size=(DRAWS, -(-runs // length)))
    chosen = (starts[:, :, None] + np.arange(length)).reshape(DRAWS, -1)[:, :runs] % runs
    drawn = levels + residuals[chosen] * root
    places = _differences(drawn, weights).argmax(axis=1) + LEAST_SIDE
    sides = [np.average(part, axis=1, weights=those) for part, those in (
        (drawn[:, :split], weights[:split]), (drawn[:, split:], weights[split:]))]  # fmt: skip
    size = float(levels[-1] - levels[0])
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(sides[1] - sides[0], [tail, 1 - tail]) - size
    # The residuals' own scale is not known either.
    factor = t_quantile(1 - tail, runs - 2) / t_quantile(1 - tail, 1e9)
    ratio = Estimate(finite_exp(size), finite_exp(size + factor * float(low)), finite_exp(size + factor * float(high)))
    first, last = np.quantile(places, [tail, 1 - tail], method="nearest")
    return Step(at, min(at, start + int(first)), max(at, start + int(last)), ratio, p)


def _drift(values: Floats, start: int, stop: int, floor: float) -> Drift | None:
    """The drift of a part by the median slope of pairs of runs (Sen, JASA 63, 1968); None without one, or a small one.

    The interval comes from the variance of Kendall's S, widened for alike neighbours.
    """
    runs = stop - start
    if runs < 8:
        return None
    some = values[start:stop]
    one, two = np.triu_indices(runs, 1) if runs * (runs - 1) // 2 <= _MOST_PAIRS else _some_pairs(runs)
    slopes = np.sort((some[two] - some[one]) / (two - one))
    slope = float(np.median(slopes))
    alike = alikeness(some - slope * np.arange(runs))
    variance = runs * (runs - 1) * (2 * runs + 5) / 18 * long_run(alike)
    # The share of slopes between the ends; all pairs give S.
    half = t_quantile(0.5 + DRIFT_LEVEL / 2, 1e9) * math.sqrt(variance) / (runs * (runs - 1) / 2) / 2
    low, high = (float(np.quantile(slopes, min(max(share, 0.0), 1.0))) for share in (0.5 - half, 0.5 + half))
    whole = finite_exp(slope * (runs - 1))
    if low <= 0 <= high or abs(whole - 1) < floor:
        return None
    return Drift(Estimate(finite_exp(slope), finite_exp(low), finite_exp(high)), whole)


def _some_pairs(runs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pairs = np.sort(np.random.default_rng(0).integers(0, runs, size=(_MOST_PAIRS, 2)), axis=1)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    return pairs[:, 0], pairs[:, 1]


def _line_fits_better(values: Floats, spread: Floats, edges: list[int]) -> bool:
    """Whether a straight line explains clearly more than the steps, by the Bayesian information criterion."""
    runs, weights = len(values), 1 / spread
    steps = float((weights * (values - _levels(values, spread, edges)) ** 2).sum())
    place = np.arange(runs) - np.average(np.arange(runs), weights=weights)
    centred = values - np.average(values, weights=weights)
    slope = float((weights * place) @ centred) / float((weights * place) @ place)
    line = float((weights * (centred - slope * place) ** 2).sum())
    # A step has a level and a place.
    parameters = 2 * (len(edges) - 2) + 1
    of_line = runs * math.log(max(line, 1e-300)) + 2 * math.log(runs)
    of_steps = runs * math.log(max(steps, 1e-300)) + parameters * math.log(runs)
    return of_line + STRONG_EVIDENCE < of_steps
