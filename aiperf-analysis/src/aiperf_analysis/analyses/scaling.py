"""How times grow with sizes, and shrink with ranks: laws with intervals, exponents, links, crossovers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import asdict, frozen

from aiperf_analysis.analyses.crossovers import Crossing, crossing_table, crossings_of
from aiperf_analysis.analyses.curves import MISFIT, SIZE, STRONG, WEAK, Group, groups_of, parameters
from aiperf_analysis.analyses.links import link_table, links_of, rate_table
from aiperf_analysis.models import laws
from aiperf_analysis.models.laws import LawFit
from aiperf_analysis.models.pieces import LEAST_POINTS, Pieces, pieces
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core.analysis_options import option
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.result import (
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
from aiperf_core.stats.compare import independent_ratio
from aiperf_core.stats.draws import DRAWS
from aiperf_core.targets import WORLD_SIZE
from aiperf_core.units import parameter, plural

MOST_DRAWINGS = 12
CURVE_POINTS = 60
SUPERLINEAR = "superlinear"


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
        metavar="KIND",
    )
    by: str = option(
        "implementation",
        "What a line of the pictures stands for.",
        choices=("implementation", "executor"),
        metavar="WHAT",
    )
    draws: int = option(DRAWS, "Draws of the bootstrap.", metavar="COUNT", convert=_positive)


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
    groups = groups_of(newest, over, options.kind)
    scaled = [(one, _fits(one, options.draws)) for one in groups if one.kind != SIZE]
    sized = [(one, _pieces(one, options.draws)) for one in groups if one.kind == SIZE]
    crossings = crossings_of(groups)
    links = [(one, link) for one in groups for link in links_of(one, options.draws)]
    tables = [
        _point_table(groups),
        _law_table(scaled),
        _piece_table(sized),
        crossing_table(crossings, over),
        link_table(links),
        rate_table(groups),
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


def _varying(selection: Selection) -> str:
    """The only parameter that has several values within a target."""
    found = parameters(selection)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"several parameters vary: {', '.join(map(words, found))}. Choose one: --over {words(found[0])}"
        )
    raise AiperfError(
        "no parameter has two values in these results, so there is nothing to scale over. Run a sweep: "
        "aiperf run TARGET --set n=1e5,1e6,1e7"
    )


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
    note = f"{MISFIT}: poor fit, one point is more than 3 standard errors and the floor off; take more points there."
    return Table("exponents", "the time as a power of the size, in pieces", columns, records, note)


def _is_noise(found: Pieces) -> bool:
    """True where no piece of a fit grows or falls for certain: every interval of an exponent includes 0."""
    return all(one.exponent.low <= 0 <= one.exponent.high for one in found.pieces)


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
    found = [f"{plural('implementation', len(groups))} at {plural('point', points)} over {over}."]
    if scaled:
        best = [fitted[0] for _, fitted in scaled if fitted and fitted[0].aicc is not None]
        names = [one.law for one in best if not one.contradicted]
        told = [f"{law} {names.count(law)}" for law in sorted(set(names))]
        told += [f"none fits {len(scaled) - len(names)}"] if len(names) < len(scaled) else []
        found.append(f"Best laws, by the number of implementations: {', '.join(told)}.")
    if sized:
        bent = sum(one is not None and len(one.pieces) > 1 for _, one in sized)
        found.append(f"The exponent changes within the measured sizes for {bent} of {len(sized)} implementations.")
        noise = sum(one is not None and _is_noise(one) for _, one in sized)
        if noise:
            found.append(f"{plural('fit', noise)} not drawn: the interval of the exponent includes 0.")
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
            # Several executors of one implementation are told apart by the colours of their series.
            colour = "" if by == "executor" else one.entries[0].colour
            series.append(_measured_series(one, name, colour))
            line = _fit_series(one, name, colour, fitted.get(id(one)), pieced.get(id(one)))
            if line is not None:
                series.append(line)
        low, high = min(one.at[0] for one in members), max(one.at[-1] for one in members)
        found.append(
            Drawing(
                name=f"curve-{target}",
                title=f"{members[0].name if len(members) == 1 else target} over {over}",
                kind="lines",
                message=f"{target} on {hardware}: times of {plural('implementation', len(members))} over {over}, "
                f"{parameter(low)} to {parameter(high)}, with fits",
                x=Axis(title=over, unit="count", log=True),
                y=Axis(title="time, less is better", unit="s", log=True),
                series=series,
            )
        )
    return found


def _measured_series(group: Group, name: str, colour: str) -> Series:
    points = [
        Point(
            label="",
            x=counted(at, "count"),
            y=figure(entry.row.time_s, "s"),
            mark="" if entry.row.is_believed else entry.row.verdict.value,
            origin=entry.origin,
            colour=colour,
        )
        for at, entry in zip(group.at, group.entries, strict=True)
    ]
    return Series(name=name, points=points)


def _fit_series(
    group: Group, name: str, colour: str, fitted: list[LawFit] | None, pieced: Pieces | None
) -> Series | None:
    if fitted and fitted[0].aicc is not None:
        at = np.geomspace(group.at[0], group.at[-1], CURVE_POINTS)
        times, label = fitted[0].time(at), f"{name}: {fitted[0].law}"
    elif pieced is not None and not _is_noise(pieced):
        at, times, label = np.array(group.at), np.exp(pieced.logs), f"{name}: powers"
    else:
        return None
    points = [
        Point(
            label="",
            x=counted(float(x), "count"),
            y=Figure(value=float(y), unit="s", certainty="derived"),
            mark="fit",
            colour=colour,
        )
        for x, y in zip(at, times, strict=True)
    ]
    return Series(name=label, points=points, joined=True)
