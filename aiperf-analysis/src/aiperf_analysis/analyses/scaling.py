"""How times grow with sizes, and shrink with ranks: laws with intervals, exponents, links, crossovers."""

import math
import re
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from attrs import asdict, field, frozen

from aiperf_analysis.models import laws
from aiperf_analysis.models.curve import CONTRADICTS, Curve
from aiperf_analysis.models.draws import DRAWS, Floats, percentiles, sample_draws
from aiperf_analysis.models.laws import LawFit
from aiperf_analysis.models.pieces import LEAST_POINTS, Pieces, pieces
from aiperf_analysis.options import option
from aiperf_analysis.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    Figure,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
    figure,
)
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.results.models import DISBELIEVED, TargetResult
from aiperf_core.stats.compare import independent_ratio
from aiperf_core.stats.expectations import is_gpu
from aiperf_core.stats.intervals import ratio_interval, verdict
from aiperf_core.sweep import base_name
from aiperf_core.targets import WORLD_SIZE, nearest
from aiperf_core.units import parameter

STRONG, WEAK, SIZE = "strong", "weak", "size"
# Parameters that count processors or what runs on them.
PROCESSORS = (WORLD_SIZE, "threads", "workers", "processes", "ranks", "nodes")
MOST_DRAWINGS = 12
CURVE_POINTS = 60
SUPERLINEAR, MISFIT = "superlinear", "MISFIT"


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 100:
        raise ValueError("it takes a whole number of at least 100")
    return number


@frozen
class Options:
    """Options of `scaling`."""

    over: str = option("", "The parameter of the horizontal axis. [default: the one that varies]", metavar="NAME")
    kind: str = option(
        "auto",
        "Strong scaling (a fixed problem), weak (fixed work a rank), or a size.",
        choices=("auto", STRONG, WEAK, SIZE),
    )
    by: str = option(
        "implementation", "What a line of the pictures stands for.", choices=("implementation", "executor")
    )
    draws: int = option(DRAWS, "Draws of the bootstrap.", metavar="COUNT", convert=_positive)


@frozen
class GroupKey:
    """What the points of a curve have in common."""

    target: str
    implementation: str
    device: str
    hardware: str
    executor: str
    clock: str
    cache: str
    precision: str
    params: tuple[tuple[str, float], ...]


@frozen(eq=False)
class Group:
    """The points of an implementation in ascending order.

    at: their places. kind: `strong`, `weak` or `size`. curves: by the number of draws, once they are made.
    """

    key: GroupKey
    over: str
    kind: str
    at: list[float]
    entries: list[Entry]
    curves: dict[int, Curve] = field(factory=dict)

    @property
    def name(self) -> str:
        """The target and the implementation."""
        return f"{self.key.target}:{self.key.implementation}"

    @property
    def times(self) -> list[Estimate]:
        """The times of the points."""
        return [one.row.time_s for one in self.entries if one.row.time_s is not None]

    @property
    def floor(self) -> float:
        """The smallest relative difference that matters."""
        return max(one.result.floor for one in self.entries)

    def curve(self, draws: int) -> Curve:
        """The points with draws, from samples where there are some."""
        if draws not in self.curves:
            sampled = [_drawn(one, draws, seed) for seed, one in enumerate(self.entries)]
            self.curves[draws] = Curve.of(self.at, self.times, self.floor, sampled, draws)
        return self.curves[draws]


def _drawn(entry: Entry, draws: int, seed: int) -> Floats | None:
    blocks = entry.blocks()
    return sample_draws(blocks, draws, seed) if blocks is not None else None


def analyze(selection: Selection, options: Options) -> Result:
    """Fit times over ranks or sizes: laws of scaling, exponents, links, and crossovers of two implementations.

    Points come from sweeps, such as `aiperf run T --set n=1e5,1e6,1e7`, and from several runs; of each point the
    newest counts. Over ranks: Amdahl or Gustafson (3 points) and USL (5 points), chosen by AICc, with the serial part
    that each point shows by itself (Karp-Flatt). Over sizes: the exponent in pieces. Where a workload declares wire
    bytes: the time is alpha x steps + beta x bytes.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    over = options.over or _varying(newest)
    groups = _groups(newest, over, options.kind)
    scaled = [(one, _fits(one, options.draws)) for one in groups if one.kind != SIZE]
    sized = [(one, _pieces(one, options.draws)) for one in groups if one.kind == SIZE]
    crossings = _crossings(groups)
    links = [(one, link) for one in groups for link in _links(one, options.draws)]
    tables = [
        _point_table(groups),
        _law_table(scaled),
        _piece_table(sized),
        _crossing_table(crossings, over),
        _link_table(links),
        _rate_table(groups),
    ]
    return Result(
        analysis="scaling",
        title=f"Scaling over {over}",
        summary=_summary(groups, scaled, sized, crossings, over),
        options=asdict(options),
        tables=[one for one in tables if one.records],
        drawings=_drawings(groups, dict(_by_group(scaled)), dict(_by_group(sized)), over, options.by),
        assumptions=_assumptions(groups, scaled, over),
        left_out=newest.left_out,
        sources=newest.sources,
        details={"over": over, "kinds": {one.name: one.kind for one in groups}},
    )


# --- the points


def _place(result: TargetResult, over: str) -> float | None:
    params = result.problem.params
    if over == WORLD_SIZE:
        return float(params.get(over, result.problem.world_size))
    return params.get(over)


def _varying(selection: Selection) -> str:
    """The only parameter that has several values within a target."""
    found = parameters(selection)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"several parameters vary: {', '.join(found)}. Choose one: --over {found[0]}")
    raise AiperfError(
        "no parameter has two values in these results, so there is nothing to scale over. Run a sweep: "
        "aiperf run TARGET --set n=1e5,1e6,1e7"
    )


def points_over(selection: Selection, over: str) -> dict[GroupKey, dict[float, Entry]]:
    """The timed rows by what they have in common but for a parameter, and by its value. The newest of each counts."""
    points: dict[GroupKey, dict[float, Entry]] = {}
    for one in sorted(selection.entries, key=lambda entry: entry.run.created):
        at = _place(one.result, over)
        if at is not None and at > 0 and one.row.time_s is not None and one.row.time_s.low > 0:
            points.setdefault(_key(one, over), {})[at] = one
    return points


def parameters(selection: Selection) -> list[str]:
    """The parameters that have several values within a target."""
    values: dict[tuple[str, str], set[float]] = {}
    for one in selection.entries:
        for name, value in one.result.problem.params.items():
            values.setdefault((base_name(one.result.target), name), set()).add(value)
    return sorted({name for (_, name), seen in values.items() if len(seen) > 1})


def _groups(selection: Selection, over: str, kind: str) -> list[Group]:
    """The curves with at least two points. Raises where there are none."""
    points = points_over(selection, over)
    if not points:
        known = sorted({name for one in selection.entries for name in one.result.problem.params})
        raise UsageError(
            f"no selected target has a parameter {words(over)!r} with a positive value.{nearest(over, known)} "
            f"Parameters here: {', '.join(known) or 'none'}."
        )
    several = {key: found for key, found in points.items() if len(found) > 1}
    if not several:
        name, found = next((key.target, found) for key, found in points.items())
        raise AiperfError(
            f"no target was measured at two values of '{words(over)}': {words(name)} has {len(found)} "
            f"({', '.join(map(parameter, sorted(found)))}). Run a sweep: aiperf run {words(name)} --set {words(over)}="
            "VALUE,VALUE,VALUE"
        )
    made = []
    for key, found in sorted(several.items(), key=lambda pair: (pair[0].target, pair[0].implementation)):
        places = sorted(found)
        entries = [found[place] for place in places]
        made.append(Group(key, over, _kind(entries, places, over) if kind == "auto" else kind, places, entries))
    return made


def _key(entry: Entry, over: str) -> GroupKey:
    result, hardware = entry.result, entry.hardware
    if over == WORLD_SIZE and is_gpu(hardware):
        # The number of GPUs is what varies.
        hardware = re.sub(r"-x\d+$", "", hardware)
    params = tuple(sorted((name, value) for name, value in result.problem.params.items() if name != over))
    return GroupKey(
        base_name(result.target),
        entry.row.name,
        result.device,
        hardware,
        result.executor,
        result.clock,
        result.cache,
        result.problem.precision,
        params,
    )


def _kind(entries: Sequence[Entry], at: Sequence[float], over: str) -> str:
    """Whether the problem is fixed, the work a rank is, or the axis is a size: by the declared work."""
    if over not in PROCESSORS:
        return SIZE
    work = [one.result.problem.flops or one.result.problem.bytes_read + one.result.problem.bytes_written
            for one in entries]  # fmt: skip
    if min(work) <= 0:
        return STRONG
    slope = math.log(work[-1] / work[0]) / math.log(at[-1] / at[0])
    # The cost of a distributed workload is that of a rank, any other cost that of the whole.
    whole = slope + 1 if over == WORLD_SIZE else slope
    return WEAK if whole > 0.5 else STRONG


def _speedup(group: Group, index: int) -> Figure:
    """t1 / tN; a problem with one rank must have been measured for it."""
    if group.at[0] != 1:
        return Figure(value=None, reason=f"no point with {group.over} = 1 was measured")
    if index == 0:
        return counted(1.0)
    return figure(independent_ratio(group.times[0], group.times[index]), reason="an interval reaches 0")


def _times(estimate: Figure, factor: float) -> Figure:
    if estimate.value is None:
        return estimate
    low, high = estimate.low, estimate.high
    return Figure(
        value=estimate.value * factor,
        low=None if low is None else low * factor,
        high=None if high is None else high * factor,
        certainty=estimate.certainty,
    )


def _point_table(groups: Sequence[Group]) -> Table:
    scaled = any(one.kind != SIZE for one in groups)
    columns = [
        Column("row", "implementation"),
        Column("class", "kind of machine"),
        Column("at", groups[0].over, "figure"),
        Column("time", "time", "figure"),
    ]
    if scaled:
        columns += [
            Column("kind", "scaling"),
            Column("speedup", "speedup", "figure"),
            Column("efficiency", "efficiency", "figure"),
            Column("serial", "serial part (Karp-Flatt)", "figure"),
            Column("mark", "mark", "verdict"),
        ]
    records = []
    for group in groups:
        for index, entry in enumerate(group.entries):
            at = group.at[index]
            cells: dict[str, Cell] = {
                "row": group.name,
                "class": group.key.hardware,
                "at": counted(at, "count"),
                "time": figure(entry.row.time_s, "s"),
            }
            if scaled:
                cells |= _scaled_cells(group, index, at)
            records.append(Record(cells, [entry.origin]))
    note = ""
    if scaled:
        note = (
            "Strong scaling: speedup t(1) / t(N), efficiency speedup / N. Weak scaling: efficiency t(1) / t(N), scaled "
            "speedup N x efficiency. A serial part that grows with N is overhead, not serial work."
        )
    return Table("points", f"points over {groups[0].over}", columns, records, note)


def _scaled_cells(group: Group, index: int, at: float) -> dict[str, Cell]:
    ratio = _speedup(group, index)
    speedup = _times(ratio, at) if group.kind == WEAK else ratio
    serial = Figure(value=None, reason="one rank has no serial part")
    mark = None
    if speedup.value is None:
        serial = speedup
    elif index and speedup.low is not None and speedup.high is not None and speedup.low > 0:
        found = laws.karp_flatt(Estimate(speedup.value, speedup.low, speedup.high), at)
        serial = figure(found, "number", "derived")
        mark = SUPERLINEAR if speedup.low > at * (1 + group.floor) else None
    return {
        "kind": group.kind,
        "speedup": speedup,
        "efficiency": _times(speedup, 1 / at),
        "serial": serial,
        "mark": mark,
    }


# --- laws over ranks


def _fits(group: Group, draws: int) -> list[LawFit]:
    return laws.fits(group.curve(draws), weak=group.kind == WEAK)


def _law_table(scaled: Sequence[tuple[Group, list[LawFit]]]) -> Table:
    columns = [
        Column("row", "implementation"),
        Column("law", "law"),
        Column("verdict", "choice", "verdict"),
        Column("t1", "time of one rank", "figure"),
        Column("s", "serial part s", "figure"),
        Column("sigma", "contention sigma", "figure"),
        Column("kappa", "coherency kappa", "figure"),
        Column("peak", "N of the least time", "figure"),
        Column("aicc", "AICc", "figure"),
        Column("worst", "largest deviation", "figure"),
    ]
    records = []
    for group, found in scaled:
        best = laws.near_ties(found)
        for one in found:
            records.append(Record(_law_cells(group, one, best), [entry.origin for entry in group.entries]))
        wanted = laws.GUSTAFSON if group.kind == WEAK else laws.AMDAHL
        for law in (wanted, laws.USL):
            if len(group.at) < laws.LEAST[law]:
                reason = f"{law} needs {laws.LEAST[law]} values of {group.over}; {len(group.at)} were measured"
                none = Figure(value=None, reason=reason)
                name = "s" if law == wanted else "sigma"
                cells: dict[str, Cell] = {"row": group.name, "law": law, "verdict": "NOT FITTED", name: none}
                records.append(Record(cells))
    note = (
        "best: the least AICc; near tie: within 2 of it; not compared: too few points for AICc. MISFIT: a point "
        "lies more than 3 standard errors and the "
        "floor from the law, whose intervals then hold only if the law does."
    )
    return Table("laws", "laws of scaling", columns, records, note)


def _law_cells(group: Group, one: LawFit, best: Sequence[LawFit]) -> dict[str, Cell]:
    choice = "worse"
    if one.aicc is None:
        choice = "not compared"
    elif one in best:
        choice = "best" if one is best[0] else "near tie"
    missing = "the points are too few for AICc" if one.aicc is None else ""
    cells: dict[str, Cell] = {
        "row": group.name,
        "law": one.law,
        "verdict": f"{choice}, MISFIT" if one.contradicted else choice,
        "t1": figure(one.parameters["t1"], "s", "derived"),
        "aicc": Figure(value=one.aicc, unit="number", certainty="derived", reason=missing or None),
        "worst": Figure(value=100 * one.worst, unit="%", certainty="derived"),
    }
    for name in ("s", "sigma", "kappa", "peak"):
        if name in one.parameters:
            cells[name] = figure(one.parameters[name], "number", "derived")
        elif name in one.absent:
            cells[name] = Figure(value=None, unit="number", certainty="derived", reason=one.absent[name])
    return cells


# --- exponents over sizes


def _pieces(group: Group, draws: int) -> Pieces | None:
    return pieces(group.curve(draws)) if len(group.at) >= LEAST_POINTS else None


def _piece_table(sized: Sequence[tuple[Group, Pieces | None]]) -> Table:
    columns = [
        Column("row", "implementation"),
        Column("from", "from", "figure"),
        Column("to", "to", "figure"),
        Column("exponent", "exponent of the time", "figure"),
        Column("points", "points", "figure"),
        Column("worst", "largest deviation", "figure"),
        Column("verdict", "fit", "verdict"),
    ]
    records = []
    for group, found in sized:
        origins = [entry.origin for entry in group.entries]
        if found is None:
            reason = f"an exponent needs {LEAST_POINTS} values of {group.over}; {len(group.at)} were measured"
            none = Figure(value=None, reason=reason)
            records.append(
                Record({"row": group.name, "exponent": none, "points": counted(len(group.at), "count")}, origins)
            )
            continue
        for one in found.pieces:
            cells: dict[str, Cell] = {
                "row": group.name,
                "from": counted(one.low, "count"),
                "to": counted(one.high, "count"),
                "exponent": figure(one.exponent, "number", "derived"),
                "points": counted(one.points, "count"),
                "worst": Figure(value=100 * found.worst, unit="%", certainty="derived"),
                "verdict": MISFIT if found.contradicted else "fits",
            }
            records.append(Record(cells, origins))
    note = f"{MISFIT}: a point lies more than 3 standard errors and the floor from the pieces; take more points there."
    return Table("exponents", "the time as a power of the size, in pieces", columns, records, note)


# --- crossovers


@frozen(eq=False)
class Crossing:
    """Two implementations that change places.

    before, after: the last size at which `first` is faster, and the first at which `second` is.
    """

    first: Entry
    second: Entry
    target: str
    before: float
    after: float
    ratio_before: Estimate
    ratio_after: Estimate


def _crossings(groups: Sequence[Group]) -> list[Crossing]:
    found = []
    for one, other in combinations(groups, 2):
        if _without_name(one.key) != _without_name(other.key):
            continue
        places = sorted(set(one.at) & set(other.at))
        pairs = [(one.entries[one.at.index(at)], other.entries[other.at.index(at)]) for at in places]
        medians = [first.row.time_s.value / second.row.time_s.value for first, second in pairs
                   if first.row.time_s and second.row.time_s]  # fmt: skip
        if medians and min(medians) < 1 < max(medians):
            found += _changes(one, places, pairs)
    return found


def _without_name(key: GroupKey) -> tuple[Any, ...]:
    return (key.target, key.device, key.hardware, key.clock, key.cache, key.precision, key.params)


def _changes(group: Group, places: Sequence[float], pairs: Sequence[tuple[Entry, Entry]]) -> list[Crossing]:
    """Where the sides that the intervals show change from a size to the next one that shows a side."""
    found = []
    last: tuple[float, bool, Estimate] | None = None
    for at, (first, second) in zip(places, pairs, strict=True):
        # Above 1 where the second one is faster.
        ratio = _paired(first, second)
        side = verdict(ratio, group.floor).value if ratio else ""
        if ratio is None or side not in ("FASTER", "SLOWER"):
            continue
        ahead = side == "FASTER"
        if last is not None and last[1] != ahead:
            pair = (first, second) if ahead else (second, first)
            found.append(Crossing(*pair, group.key.target, last[0], at, last[2], ratio))
        last = at, ahead, ratio
    return found


def _paired(first: Entry, second: Entry) -> Estimate | None:
    """The time of the first over that of the second, on shared passes where they took turns."""
    if first.run.id == second.run.id and first.result.target == second.result.target:
        sides = first.blocks(), second.blocks()
        if sides[0] is not None and sides[1] is not None:
            return ratio_interval(sides[0], sides[1])
    if first.row.time_s is None or second.row.time_s is None:
        return None
    return independent_ratio(first.row.time_s, second.row.time_s)


def _crossing_table(crossings: Sequence[Crossing], over: str) -> Table:
    columns = [
        Column("target", "target"),
        Column("below", "faster below"),
        Column("above", "faster from there"),
        Column("before", f"last {over} below", "figure"),
        Column("after", f"first {over} above", "figure"),
    ]
    records = [
        Record(
            {
                "target": one.target,
                "below": one.first.row.name,
                "above": one.second.row.name,
                "before": counted(one.before, "count"),
                "after": counted(one.after, "count"),
            },
            [one.first.origin, one.second.origin],
        )
        for one in crossings
    ]
    note = (
        "At both values the interval of the ratio lies beyond the floor. Between them nothing was measured, or no side "
        "won."
    )
    return Table("crossovers", "crossovers, between measured values", columns, records, note)


# --- links


@frozen(eq=False)
class Link:
    """The time of communication: alpha for a step, and bytes over a rate.

    steps: the steps of a call of the collectives that were counted; null where they are not known.
    """

    name: str
    alpha: Estimate
    rate: Estimate | None
    steps: float | None
    worst: float
    contradicted: bool


_STEPS: dict[str, Callable[[float], float]] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1),
    "all_gather": lambda ranks: ranks - 1,
    "reduce_scatter": lambda ranks: ranks - 1,
}


def _links(group: Group, draws: int) -> list[Link]:
    """The fit of alpha and beta, where at least three sizes differ in their wire bytes.

    Over ranks the arithmetic of a rank changes too, and the time is not that of communication alone.
    """
    if group.kind != SIZE:
        return []
    sent = np.array([one.result.problem.wire_bytes for one in group.entries])
    if len(set(sent[sent > 0].tolist())) < LEAST_POINTS:
        return []
    curve = group.curve(draws).only([index for index, amount in enumerate(sent) if amount > 0])
    counts = [_steps(one) for one, amount in zip(group.entries, sent, strict=True) if amount > 0]
    known = all(one is not None for one in counts)
    steps = np.array([one if known and one is not None else 1.0 for one in counts])
    columns = np.stack([steps, sent[sent > 0]], axis=1)
    values = np.exp(np.vstack([curve.logs, curve.draws]))
    spreads = values[0] * curve.spreads
    # A third column of nothing would be free; here both are not negative.
    free = np.concatenate([np.zeros((len(steps), 1)), columns], axis=1)
    found = laws.nonnegative(free, values, spreads)[:, 1:]
    fitted = columns @ found[0]
    alpha = percentiles(float(found[0, 0]), found[1:, 0])
    rate = None
    if found[0, 1] > 0 and (found[1:, 1] > 0).mean() > 0.975:
        slopes = found[1:, 1][found[1:, 1] > 0]
        rate = percentiles(float(1 / found[0, 1]), 1 / slopes)
    apart = np.abs(fitted / values[0] - 1)
    contradicted = bool((apart > CONTRADICTS * curve.spreads).any())
    first = next((one for one in counts if one is not None), None)
    return [Link(group.name, alpha, rate, first if known else None, float(apart.max()), contradicted)]


def _steps(entry: Entry) -> float | None:
    """The steps of a ring for the collectives of a call; None where a collective is not one of a ring."""
    ranks = entry.row.ranks
    if not ranks or not ranks[0].collectives:
        return None
    size = float(entry.result.problem.world_size)
    total = 0.0
    for name, count in ranks[0].collectives.items():
        kind = next((one for one in _STEPS if name.startswith(one)), None)
        if kind is None:
            return None
        total += count * _STEPS[kind](size)
    return total


def _link_table(links: Sequence[tuple[Group, Link]]) -> Table:
    columns = [
        Column("row", "implementation"),
        Column("executor", "executor"),
        Column("alpha", "alpha", "figure"),
        Column("steps", "steps of a call", "figure"),
        Column("rate", "bus bandwidth, 1 / beta", "figure"),
        Column("worst", "largest deviation", "figure"),
        Column("verdict", "fit", "verdict"),
    ]
    records = [
        Record(
            {
                "row": one.name,
                "executor": group.key.executor,
                "alpha": figure(one.alpha, "s", "derived"),
                "steps": counted(one.steps, "count", "the collectives are no ring; alpha is for a call"),
                "rate": figure(one.rate, "B/s", "derived", "the time does not grow with the bytes"),
                "worst": Figure(value=100 * one.worst, unit="%", certainty="derived"),
                "verdict": MISFIT if one.contradicted else "fits",
            },
            [entry.origin for entry in group.entries],
        )
        for group, one in links
    ]
    note = (
        "t = alpha x steps + beta x bytes, with the wire bytes of a rank: 2 (N - 1) / N of the data in an all-reduce."
    )
    return Table("links", "communication", columns, records, note)


def _rate_table(groups: Sequence[Group]) -> Table:
    """Wire bytes over the time, of each point that declares some."""
    columns = [
        Column("row", "implementation"),
        Column("executor", "executor"),
        Column("at", groups[0].over, "figure"),
        Column("bytes", "wire bytes of a rank", "figure"),
        Column("rate", "bytes over time", "figure"),
    ]
    records = []
    for group in groups:
        for at, entry, time in zip(group.at, group.entries, group.times, strict=True):
            sent = entry.result.problem.wire_bytes
            if sent > 0:
                rate = Estimate(sent / time.value, sent / time.high, sent / time.low)
                cells: dict[str, Cell] = {
                    "row": group.name,
                    "executor": group.key.executor,
                    "at": counted(at, "count"),
                    "bytes": counted(sent, "B"),
                    "rate": figure(rate, "B/s", "derived"),
                }
                records.append(Record(cells, [entry.origin]))
    return Table("rates", "wire bytes over the time of a call", columns, records)


# --- words and pictures


def _by_group(pairs: Sequence[tuple[Group, Any]]) -> list[tuple[int, Any]]:
    return [(id(group), found) for group, found in pairs]


def _summary(
    groups: Sequence[Group],
    scaled: Sequence[tuple[Group, list[LawFit]]],
    sized: Sequence[tuple[Group, Pieces | None]],
    crossings: Sequence[Crossing],
    over: str,
) -> list[str]:
    points = sum(len(one.at) for one in groups)
    found = [f"{len(groups)} implementations at {points} points over {over}."]
    if scaled:
        best = [fitted[0] for _, fitted in scaled if fitted and fitted[0].aicc is not None]
        names = [one.law for one in best if not one.contradicted]
        told = [f"{law} {names.count(law)}" for law in sorted(set(names))]
        told += [f"none fits {len(scaled) - len(names)}"] if len(names) < len(scaled) else []
        found.append(f"Best laws, by the number of implementations: {', '.join(told)}.")
    if sized:
        bent = sum(one is not None and len(one.pieces) > 1 for _, one in sized)
        found.append(f"The exponent changes within the measured sizes for {bent} of {len(sized)} implementations.")
    for one in crossings[:5]:
        found.append(
            f"{one.target}: up to {over} = {parameter(one.before)} '{one.first.row.name}' is faster, from "
            f"{parameter(one.after)} on '{one.second.row.name}'."
        )
    return found


def _assumptions(groups: Sequence[Group], scaled: Sequence[tuple[Group, list[LawFit]]], over: str) -> list[str]:
    found = [
        "intervals of times and their ratios are those of a repeated run; intervals of fitted figures are those of the "
        "figure, from draws of all points",
        "nothing is drawn or told beyond the measured values",
    ]
    kinds = sorted({one.kind for one, _ in scaled})
    if kinds:
        found.append(
            f"{' and '.join(kinds)} scaling by the work that the targets declare; --kind sets it for all of them"
        )
    gone = sum(_gone(entry) for one in groups for entry in one.entries)
    if gone:
        found.append(f"the samples of {gone} points are gone; their draws are log-normal, from the stored intervals")
    if over == WORLD_SIZE:
        found.append("runs with different numbers of ranks are independent: the ratio of their times is unpaired")
    return found


def _gone(entry: Entry) -> bool:
    return entry.run.bundle is None


def _drawings(
    groups: Sequence[Group], fitted: dict[int, list[LawFit]], pieced: dict[int, Pieces | None], over: str, by: str
) -> list[Drawing]:
    """A picture for each target and kind of machine: the points of all implementations, and their fits."""
    together: dict[tuple[str, str], list[Group]] = {}
    for one in groups:
        together.setdefault((one.key.target, one.key.hardware), []).append(one)
    found = []
    for (target, hardware), members in list(together.items())[:MOST_DRAWINGS]:
        series: list[Series] = []
        for one in members:
            name = one.key.executor if by == "executor" else one.key.implementation
            series.append(_measured_series(one, name))
            line = _fit_series(one, name, fitted.get(id(one)), pieced.get(id(one)))
            if line is not None:
                series.append(line)
        low, high = min(one.at[0] for one in members), max(one.at[-1] for one in members)
        found.append(
            Drawing(
                name=f"curve-{target}",
                title=f"{target} over {over}",
                kind="lines",
                message=f"{target} on {hardware}: times of {len(members)} implementations over {over}, "
                f"{parameter(low)} to {parameter(high)}, with fits",
                x=Axis(title=over, unit="count", log=True),
                y=Axis(title="time, less is better", unit="s", log=True),
                series=series,
            )
        )
    return found


def _measured_series(group: Group, name: str) -> Series:
    points = [
        Point(
            label="" if index else name,
            x=counted(at, "count"),
            y=figure(entry.row.time_s, "s"),
            mark=entry.row.verdict.value if entry.row.verdict in DISBELIEVED else "",
            origin=entry.origin,
        )
        for index, (at, entry) in enumerate(zip(group.at, group.entries, strict=True))
    ]
    return Series(name=name, points=points)


def _fit_series(group: Group, name: str, fitted: list[LawFit] | None, pieced: Pieces | None) -> Series | None:
    if fitted and fitted[0].aicc is not None:
        at = np.geomspace(group.at[0], group.at[-1], CURVE_POINTS)
        times, label = fitted[0].time(at), f"{name}: {fitted[0].law}"
    elif pieced is not None:
        at, times, label = np.array(group.at), np.exp(pieced.logs), f"{name}: powers"
    else:
        return None
    points = [
        Point(
            label="", x=counted(float(x), "count"), y=Figure(value=float(y), unit="s", certainty="derived"), mark="fit"
        )
        for x, y in zip(at, times, strict=True)
    ]
    return Series(name=label, points=points, joined=True)
