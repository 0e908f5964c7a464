"""Which rows of a target no other row beats in every objective: the Pareto front, as far as the intervals tell."""

import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from attrs import asdict, frozen

from aiperf_analysis import joint
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_analysis.sizes import size_of
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.result import (
    Axis,
    Column,
    Drawing,
    Figure,
    LeftOut,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
    figure,
)
from aiperf_core.stats.draws import DRAWS, Floats

FRONT, DOMINATED, UNDECIDED = "FRONT", "DOMINATED", "UNDECIDED"
SURE = 0.95
MOST_OBJECTIVES = 5
MOST_DRAWINGS = 24


def _rates(text: str) -> dict[str, float]:
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        pattern, _, rate = part.rpartition("=")
        try:
            found[pattern] = float(rate)
        except ValueError:
            found[pattern] = math.nan
        if not pattern or not 0 < found[pattern] < math.inf:
            raise ValueError("it takes CLASS=USD_PER_HOUR, such as nvidia-h200-x1=3.50")
    return found


@frozen
class Options:
    """Options of this analysis."""

    objective: tuple[str, ...] = option(
        ("time", "memory"),
        "What to optimise, at most five of them.",
        metavar="NAME,NAME",
        choices=("time", "wall", "memory", "energy", "quality", "cost"),
    )
    rate: dict[str, float] | None = option(
        None, "US dollars an hour of a kind of machine, for the cost.", metavar="CLASS=USD,...", convert=_rates
    )
    across: bool = option(False, "Compare rows of different kinds of machine.")
    draws: int = option(DRAWS, "Joint draws of the bootstrap.")


@frozen
class Objective:
    """A figure of a row, of which less is better.

    figure: the figure of an entry; one without a value has the reason.
    title: of its axis. exact: whether it is counted, so that it has no draws and no floor.
    """

    name: str
    title: str
    unit: str
    figure: Callable[[Entry, Options], Figure]
    exact: bool = False
    log: bool = True


@frozen
class Standing:
    """Where a point stands.

    kind: `FRONT`, `DOMINATED` or `UNDECIDED`.
    rival: the index of the point that dominates it most often; None where no point ever does.
    share: the share of draws in which the rival dominates it.
    """

    kind: str
    rival: int | None
    share: float


def analyze(selection: Selection, options: Options) -> Result:
    """Find the Pareto front of each target: the rows that no other row beats.

    A row is beaten by another that is nowhere worse by more than the floor, and better by more than the floor in one
    objective. FRONT: each other row beats it in less than 5 % of the joint draws. DOMINATED: one row beats it in at
    least 95 %. UNDECIDED: neither. A variant beyond its quality budget does not take part. Lossy variants have a front
    of their own unless quality is an objective.
    """
    objectives = _objectives(options)
    newest = selection.latest()
    required(newest.entries, newest)
    groups, left_out = _groups(newest, objectives, options)
    if not groups:
        reasons = "; ".join(dict.fromkeys(f"{one.what}: {one.reason}" for one in left_out[:5]))
        raise AiperfError(
            f"no target has two rows with {' and '.join(options.objective)}, so there is no front. Left out: "
            f"{reasons}. Measure more rows, or choose other objectives: --objective NAME,NAME"
        )
    records: list[Record] = []
    drawings: list[Drawing] = []
    counts = dict.fromkeys((FRONT, DOMINATED, UNDECIDED), 0)
    for title, entries in groups.items():
        found = standings(_draws(entries, objectives, options), _floors(entries, objectives))
        for one in found:
            counts[one.kind] += 1
        records += [
            _record(title, entries, place, standing, objectives, options) for place, standing in enumerate(found)
        ]
        drawings.append(_drawing(title, entries, found, objectives, options))
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    left = [*newest.left_out, *left_out]
    return Result(
        analysis="pareto",
        title=f"Pareto front of {' and '.join(options.objective)}",
        summary=[
            f"{units.plural('front', len(groups))} of {units.plural('row', len(records))}: {told}.",
            *_decided_by(records),
        ],
        tables=[Table("fronts", "rows by standing", _columns(objectives), records)],
        drawings=drawings[:MOST_DRAWINGS],
        options=asdict(options),
        assumptions=_assumptions(objectives, options, len(drawings)),
        left_out=left,
        sources=newest.sources,
    )


def standings(values: Floats, floors: Floats) -> list[Standing]:
    """Where points stand by joint draws of their figures, of which less is better.

    values: (draws, points, objectives), at least 0. floors: (points, objectives), the smallest relative difference that
    matters.
    """
    points = values.shape[1]
    found = []
    for place in range(points):
        shares = np.zeros(points)
        for other in range(points):
            if other != place:
                floor = np.maximum(floors[place], floors[other])
                shares[other] = dominates(values[:, other], values[:, place], floor).mean()
        rival = int(np.argmax(shares))
        share = float(shares[rival])
        kind = DOMINATED if share >= SURE else FRONT if share < 1 - SURE else UNDECIDED
        found.append(Standing(kind, rival if share > 0 else None, share))
    return found


def dominates(one: Floats, other: Floats, floor: Floats) -> Any:
    """Whether `one` dominates `other`: nowhere worse beyond the floor, and in one objective better beyond it.

    The last axis is that of the objectives. A worse figure times `1 - floor` is above the other's, a better one times
    `1 + floor` below it, as for verdicts on speedups.
    """
    not_worse = (one * (1 - floor) <= other).all(axis=-1)
    return not_worse & (one * (1 + floor) < other).any(axis=-1)


# --- objectives


def _time(entry: Entry, _: Options) -> Figure:
    return entry.figure("time_s")


def _wall(entry: Entry, _: Options) -> Figure:
    return entry.figure("wall_s")


def _memory(entry: Entry, _: Options) -> Figure:
    return entry.figure("peak_bytes")


def _energy(entry: Entry, _: Options) -> Figure:
    return entry.figure("joules_per_call")


def _quality(entry: Entry, _: Options) -> Figure:
    if entry.row.quality is None:
        return counted(0.0, "number")
    return counted(entry.row.quality.value, "number", "its quality came out as no number")


def _cost(entry: Entry, options: Options) -> Figure:
    rate = rate_of(entry.hardware, options)
    if rate is None:
        return Figure(value=None, unit="USD", certainty="derived", reason=f"no --rate for '{entry.hardware}'")
    time = entry.row.time_s
    dollars = None if time is None else Estimate(*(rate * one / 3600 for one in (time.value, time.low, time.high)))
    return figure(dollars, "USD", "derived", "it has no time")


def rate_of(hardware: str, options: Options) -> float | None:
    """US dollars an hour of a kind of machine, by the first pattern that fits."""
    return next((rate for pattern, rate in (options.rate or {}).items() if fnmatchcase(hardware, pattern)), None)


OBJECTIVES = {
    one.name: one
    for one in (
        Objective("time", "time of a call", "s", _time),
        Objective("wall", "the caller's wait", "s", _wall),
        Objective("memory", "peak memory", "B", _memory, exact=True, log=False),
        Objective("energy", "energy of a call", "J", _energy),
        Objective("quality", "loss of quality", "number", _quality, exact=True, log=False),
        Objective("cost", "cost of a call", "USD", _cost),
    )
}


def _objectives(options: Options) -> list[Objective]:
    names = list(dict.fromkeys(options.objective))
    if not 2 <= len(names) <= MOST_OBJECTIVES:
        raise UsageError(
            f"--objective got {units.plural('objective', len(names))}; a front takes 2 to {MOST_OBJECTIVES} of: "
            f"{', '.join(OBJECTIVES)}."
        )
    if options.draws < 100:
        raise UsageError(f"--draws got {options.draws}; at least 100 draws tell 5 % from 0.")
    return [OBJECTIVES[name] for name in names]


# --- groups


def _groups(
    selection: Selection, objectives: Sequence[Objective], options: Options
) -> tuple[dict[str, list[Entry]], list[LeftOut]]:
    """The rows that solve the same problem and have all objectives, by the title of their front."""
    usable = [one for one in selection.entries if one.row.role in ("baseline", "variant")]
    _check_present(usable, objectives, options)
    groups: dict[tuple[object, ...], list[Entry]] = {}
    left_out = [
        LeftOut(one.name, one.row.verdict.value, "a yardstick may do other work", one.origin)
        for one in selection.entries
        if one.row.role == "yardstick"
    ]
    by_quality = any(one.name == "quality" for one in objectives)
    for one in usable:
        reason = _refused(one, objectives, options)
        if reason:
            left_out.append(LeftOut(one.name, one.row.verdict.value, reason, one.origin))
            continue
        key, quality = one.key, one.row.quality
        kind = "" if quality is None else quality.metric if by_quality else f"lossy by {quality.metric}"
        lossy = "" if by_quality and not kind else kind
        where = ("", "") if options.across else (key.device, key.hardware)
        groups.setdefault((key.target, *where, key.params, key.clock, key.cache, key.precision, lossy), []).append(one)
    if by_quality:
        groups = _with_exact(groups)
    fronts = [entries for entries in groups.values() if len(entries) > 1]
    left_out += [LeftOut(one.name, one.row.verdict.value, "no other row to compare with", one.origin)
                 for entries in groups.values() if len(entries) < 2 for one in entries]  # fmt: skip
    return dict(zip(_titles(fronts, options, by_quality=by_quality), fronts, strict=True)), left_out


def _with_exact(groups: dict[tuple[object, ...], list[Entry]]) -> dict[tuple[object, ...], list[Entry]]:
    """Fronts with quality: the exact rows of a problem stand beside the lossy rows of each metric."""
    lossy = {key for key in groups if key[-1]}
    found = {key: [*groups.get((*key[:-1], ""), []), *groups[key]] for key in lossy}
    covered = {key[:-1] for key in lossy}
    return {
        **{key: entries for key, entries in groups.items() if key not in lossy and key[:-1] not in covered},
        **found,
    }


def _titles(fronts: Sequence[Sequence[Entry]], options: Options, *, by_quality: bool) -> list[str]:
    """The titles of fronts. Those of one target and machine also say in what they differ."""
    plain = [_title(entries[0], options, by_quality=by_quality) for entries in fronts]
    found: list[str] = []
    for title, entries in zip(plain, fronts, strict=True):
        alike = [_circumstances(other[0]) for other, its in zip(fronts, plain, strict=True) if its == title]
        own = _circumstances(entries[0])
        differing = [one for place, one in enumerate(own) if one and len({other[place] for other in alike}) > 1]
        told = f"{title} ({', '.join(differing)})" if differing else title
        found.append(f"{told} #{found.count(told) + 1}" if told in found else told)
    return found


def _title(first: Entry, options: Options, *, by_quality: bool) -> str:
    title = first.result.target if options.across else f"{first.result.target} on {first.hardware}"
    if first.row.quality is not None and not by_quality:
        title += f", lossy by {first.row.quality.metric}"
    return title


def _circumstances(entry: Entry) -> tuple[str, ...]:
    """What fronts of one target and machine may differ in."""
    return entry.result.device, entry.result.clock, entry.result.cache, size_of(entry) or ""


def _check_present(entries: Sequence[Entry], objectives: Sequence[Objective], options: Options) -> None:
    """Raise UsageError for an objective that no row has."""
    present = [
        name
        for name, one in OBJECTIVES.items()
        if any(one.figure(row, options).value is not None and (name != "quality" or row.row.quality) for row in entries)
    ]
    for one in objectives:
        if one.name not in present:
            reasons = (one.figure(row, options).reason for row in entries)
            first = next(filter(None, reasons), "no row declares a loss of quality")
            raise UsageError(
                f"no row has the objective '{one.name}' ({words(first)}). Objectives of these rows: "
                f"{', '.join(present)}."
            )


def _refused(entry: Entry, objectives: Sequence[Objective], options: Options) -> str:
    """Why a row takes no part; empty for a row that does."""
    quality = entry.row.quality
    if quality is not None and (quality.value is None or quality.value > quality.budget):
        return f"beyond its quality budget: {quality.metric} of {quality.value} where {quality.budget:g} is allowed"
    missing = [one.figure(entry, options) for one in objectives]
    return next((one.reason or "not measured" for one in missing if one.value is None), "")


def _draws(entries: Sequence[Entry], objectives: Sequence[Objective], options: Options) -> Floats:
    """Joint draws: (draws, rows, objectives). Time and cost share their draws."""
    rng = np.random.default_rng(0)
    found = np.empty((options.draws, len(entries), len(objectives)))
    of_times: Floats | None = None
    for column, one in enumerate(objectives):
        if one.name in ("time", "cost"):
            of_times = joint.times(entries, options.draws) if of_times is None else of_times
            scale = [1.0 if one.name == "time" else (rate_of(row.hardware, options) or 0.0) / 3600 for row in entries]
            found[:, :, column] = of_times * scale
            continue
        for place, row in enumerate(entries):
            shown = one.figure(row, options)
            value = shown.value or 0.0
            if one.exact or shown.low is None or shown.high is None:
                found[:, place, column] = value
            else:
                found[:, place, column] = joint.lognormal(Estimate(value, shown.low, shown.high), rng, options.draws)
    return found


def _floors(entries: Sequence[Entry], objectives: Sequence[Objective]) -> Floats:
    return np.array([[0.0 if one.exact else row.result.floor for one in objectives] for row in entries])


# --- what is shown


def _columns(objectives: Sequence[Objective]) -> list[Column]:
    return [
        Column("row", "row"),
        Column("class", "kind of machine"),
        Column("standing", "standing", "verdict"),
        *(Column(one.name, one.title, "figure") for one in objectives),
        Column("rival", "beaten by"),
        Column("share", "confidence", "figure"),
        Column("next", "what would decide"),
    ]


def _record(
    title: str,
    entries: Sequence[Entry],
    place: int,
    standing: Standing,
    objectives: Sequence[Objective],
    options: Options,
) -> Record:
    entry = entries[place]
    rival = entries[standing.rival] if standing.rival is not None and standing.kind != FRONT else None
    open_ = standing.kind == UNDECIDED and rival is not None
    share = Figure(value=100 * standing.share, unit="%", certainty="estimated")
    none = Figure(value=None, unit="%", certainty="estimated", reason="below 5 % for every other row")
    return Record(
        {
            "row": entry.name,
            "class": entry.hardware,
            "front": title,
            "standing": standing.kind,
            **{one.name: one.figure(entry, options) for one in objectives},
            "rival": _name(rival, entry) if rival is not None else None,
            "share": share if rival is not None else none,
            "next": _remedy(entry, rival, objectives, options) if open_ and rival is not None else None,
        },
        [entry.origin, *([rival.origin] if rival is not None else [])],
    )


def _name(rival: Entry, entry: Entry) -> str:
    return rival.row.name if rival.hardware == entry.hardware else f"{rival.row.name} on {rival.hardware}"


def _remedy(entry: Entry, rival: Entry, objectives: Sequence[Objective], options: Options) -> str:
    """The open objective of two rows, and the run that would settle it."""
    open_ = []
    for one in objectives:
        if one.exact:
            continue
        mine, other = one.figure(entry, options), one.figure(rival, options)
        if None in (mine.low, mine.high, other.low, other.high) or not mine.value or not other.value:
            continue
        floor = max(entry.result.floor, rival.result.floor)
        apart = abs(math.log(mine.value / other.value) - math.copysign(math.log1p(floor), mine.value - other.value))
        open_.append((apart, one.name))
    what = min(open_)[1] if open_ else objectives[0].name
    rows = " ".join(
        f"--variant {words(row.row.name)}" for row in (rival, entry) if row.row.role == "variant"
    )  # the baseline is always there
    return f"{what}: more rounds, aiperf run {words(entry.result.target)} {rows} --tier standard".replace("  ", " ")


def _decided_by(records: Sequence[Record]) -> list[str]:
    count = sum(record.cells["standing"] == UNDECIDED for record in records)
    if not count:
        return []
    return [f"{units.plural('row', count)} may or may not be on a front: the table says which run would decide."]


def _drawing(
    title: str, entries: Sequence[Entry], found: Sequence[Standing], objectives: Sequence[Objective], options: Options
) -> Drawing:
    across, up = objectives[0], objectives[1]
    marks = {FRONT: "front", DOMINATED: "dominated", UNDECIDED: "undecided"}
    series = []
    for kind in (FRONT, UNDECIDED, DOMINATED):
        points = [
            Point(
                label=_label(entry, options),
                x=across.figure(entry, options),
                y=up.figure(entry, options),
                mark=marks[kind],
                origin=entry.origin,
                colour="" if options.across else entry.colour,
            )
            for entry, one in zip(entries, found, strict=True)
            if one.kind == kind
        ]
        if points:
            series.append(Series(name=kind, points=points))
    names = {kind: [point.label for point in one.points] for one in series for kind in [one.name]}
    message = "; ".join(f"{kind}: {', '.join(each)}" for kind, each in names.items())
    return Drawing(
        name=title.replace(" ", "-"),
        title=title,
        kind="scatter",
        message=f"{title}. {message}.",
        x=_axis(across, entries, options),
        y=_axis(up, entries, options),
        series=series,
    )


def _label(entry: Entry, options: Options) -> str:
    return f"{entry.row.name} on {entry.hardware}" if options.across else entry.row.name


def _axis(objective: Objective, entries: Sequence[Entry], options: Options) -> Axis:
    values = [objective.figure(entry, options).value or 0.0 for entry in entries]
    log = objective.log and min(values) > 0 and max(values) > 5 * min(values)
    return Axis(title=f"{objective.title} (less is better)", unit=objective.unit, log=log)


def _assumptions(objectives: Sequence[Objective], options: Options, drawings: int) -> list[str]:
    names = {one.name for one in objectives}
    found = [f"{joint.SHARED}; figures other than time and cost are drawn independently."]
    if names & {"memory", "quality"}:
        found.append("peak memory and quality are exact: a difference of any size counts.")
    if "quality" in names:
        found.append("a row that declares no loss of quality has a loss of 0: its output meets the exact tolerance.")
    if "energy" in names:
        found.append("the energy is what the device drew, idle power included.")
    if "cost" in names:
        rates = ", ".join(f"{name} {rate:g} USD/h" for name, rate in (options.rate or {}).items())
        found.append(f"rates as given with --rate, for the whole machine: {rates}.")
    if drawings > MOST_DRAWINGS:
        found.append(f"pictures of the first {MOST_DRAWINGS} of {drawings} fronts; fewer with --target PATTERN.")
    return found
