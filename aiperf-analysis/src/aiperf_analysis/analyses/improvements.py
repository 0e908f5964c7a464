"""What mechanisms were measured to gain, as distributions over targets and kinds of machine."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np
from attrs import asdict, frozen

from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.measurements import Estimate
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
from aiperf_core.results.models import Verdict
from aiperf_core.stats.draws import ends, resamples
from aiperf_core.targets import nearest

FEWEST = 3  # effects of a distribution; of fewer, each is shown by itself
QUARTILES = (0.25, 0.5, 0.75)


@frozen
class Options:
    """Options of this analysis."""

    mechanism: str | None = option(None, "Only this mechanism.", metavar="NAME")


@frozen
class Effect:
    """The measured gain of one mechanism: of steps, or of variants that have this mechanism alone."""

    mechanism: str
    entries: Sequence[Entry]
    gain: Estimate


def analyze(selection: Selection, options: Options) -> Result:
    """Show how much each mechanism gained where it was measured: quartiles over targets and kinds of machine.

    A mechanism's effect is the speedup of a variant that has no other mechanism, or of a step of a ladder that adds
    this mechanism alone. A target counts once on each kind of machine: its effects at several sizes, and those of
    several variants, are one by their geometric mean. A variant that combines several mechanisms without such a step
    says nothing about each, and is left out, as are targets whose goal is memory. Targets that expect no gain are
    listed apart.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    measured, left_out = effects_of(newest)
    apart = [one for one in measured if one.entries[0].result.no_gain]
    effects = _by_target([one for one in measured if not one.entries[0].result.no_gain])
    names = sorted({one.mechanism for one in effects})
    if options.mechanism is not None:
        hint = "" if options.mechanism in names else nearest(options.mechanism, names)
        names = [name for name in names if name == options.mechanism]
        apart = [one for one in apart if one.mechanism == options.mechanism]
        if not names:
            return _nothing(
                options, f"No evidence here for the mechanism '{options.mechanism}'.{hint}", newest, left_out
            )
    elif not names:
        return _nothing(options, "No mechanism has been measured by itself.", newest, left_out)
    records: list[Record] = []
    points: list[Point] = []
    for name in names:
        some = [one for one in effects if one.mechanism == name]
        median = _median(some)
        records.append(_record(name, some, median))
        place = Figure(value=float(len(points)), unit="count", certainty="counted")
        points.append(Point(label=f"{name} ({len(some)})", x=median, y=place))
    order = sorted(range(len(names)), key=lambda place: -(points[place].x.value or 0.0))
    # The figure of one or two targets is no tendency. A mechanism that is asked for is drawn nevertheless.
    drawn = [place for place in order if options.mechanism or _targets_of(records[place]) >= FEWEST]
    rest = len(order) - len(drawn)
    few = f"{units.plural('mechanism', rest)} of fewer than {FEWEST} targets in the table alone." if rest else ""
    best = points[order[0]]
    effects_told = units.plural("effect", sum(one.mechanism in names for one in effects))
    message = f"{units.plural('mechanism', len(names))} in {effects_told}; the largest median is {best.label}"
    return Result(
        analysis="improvements",
        title="Measured gains of mechanisms",
        summary=[f"{message}.", *([few] if few else [])],
        tables=[
            Table("mechanisms", "gains by mechanism", _columns(), [records[place] for place in order]),
            *([_apart(apart)] if apart else []),
        ],
        drawings=[
            Drawing(
                name="mechanisms",
                title="Median gain of each mechanism, and the number of effects",
                kind="intervals",
                message=f"{message}. {few}".rstrip(". ") if few else message,
                x=Axis(title="speedup of the step (more is better)", log=True),
                y=Axis(title="mechanism", unit="count"),
                series=[Series(name="median", points=[points[place] for place in drawn])],
            )
        ]
        if drawn
        else [],
        options=asdict(options),
        assumptions=[
            "a gain on one target says little about another: the range is what was measured here, not a promise.",
            "a target counts once on each kind of machine: an effect is the geometric mean over its sizes and "
            "variants; so are the ends of its interval.",
            "the interval of a median is by bootstrap over effects; of fewer than three it covers their own intervals.",
        ],
        left_out=[*newest.left_out, *left_out],
        sources=newest.sources,
    )


def effects_of(selection: Selection) -> tuple[list[Effect], list[LeftOut]]:
    """The effects of single mechanisms, and the variants that show none."""
    found: list[Effect] = []
    left_out: list[LeftOut] = []
    for one in selection.entries:
        if one.row.role != "variant":
            continue
        added = _added(one)
        mine = set(one.row.mechanisms)
        if one.result.goal == "memory":
            reason = "its goal is memory; see aiperf analyze recommend --use low-vram"
            left_out.append(LeftOut(one.name, one.row.verdict.value, reason, one.origin))
        elif len(added) == 1 and one.row.step_speedup is not None:
            found.append(Effect(added.pop(), [one], one.row.step_speedup))
        elif len(mine) == 1 and one.row.speedup is not None:
            found.append(Effect(mine.pop(), [one], one.row.speedup))
        else:
            reason = "it declares no mechanism" if not mine else "it has no speedup"
            if len(mine) > 1:
                reason = f"it combines {', '.join(sorted(mine))}, and no step adds one of them alone"
            left_out.append(LeftOut(one.name, one.row.verdict.value, reason, one.origin))
    return found, left_out


def _by_target(effects: Iterable[Effect]) -> list[Effect]:
    """The effects of each target and kind of machine as one."""
    groups: dict[tuple[str, str, str], list[Effect]] = {}
    for one in effects:
        entry = one.entries[0]
        groups.setdefault((one.mechanism, entry.base_target, entry.hardware), []).append(one)
    found = []
    for (mechanism, _, _), some in groups.items():
        ends = zip(*((one.gain.value, one.gain.low, one.gain.high) for one in some), strict=True)
        mean = Estimate(*(math.exp(fmean(map(math.log, each))) if min(each) > 0 else 0.0 for each in ends))
        found.append(Effect(mechanism, [entry for one in some for entry in one.entries], mean))
    return found


def _added(entry: Entry) -> set[str]:
    """The mechanisms that a step adds to the row on which it builds."""
    before = next((row for row in entry.result.rows if row.name == entry.row.builds_on), None)
    if before is None:
        return set()
    mine, theirs = set(entry.row.mechanisms), set(before.mechanisms)
    return mine - theirs if theirs <= mine else set()


def _median(effects: Sequence[Effect]) -> Figure:
    """The median gain with its interval over effects."""
    logs = np.log([one.gain.value for one in effects])
    if len(effects) < FEWEST:
        return figure(effects[0].gain) if len(effects) == 1 else Figure(
            value=float(np.exp(np.median(logs))), low=min(one.gain.low for one in effects),
            high=max(one.gain.high for one in effects),
        )  # fmt: skip
    low, high = np.exp(ends(np.median(resamples(logs), axis=1)))
    return Figure(value=float(np.exp(np.median(logs))), low=float(low), high=float(high))


def _record(name: str, effects: Sequence[Effect], median: Figure) -> Record:
    gains = [one.gain.value for one in effects]
    lower, _, upper = (float(one) for one in np.quantile(gains, QUARTILES))
    proven = sum(one.gain.low > 1 + max(entry.result.floor for entry in one.entries) for one in effects)
    entries = [entry for one in effects for entry in one.entries]
    few = f"fewer than {FEWEST} effects have no quartiles"
    return Record(
        {
            "mechanism": name,
            "effects": counted(len(effects), "count"),
            "targets": counted(len({one.base_target for one in entries}), "count"),
            "classes": counted(len({one.hardware for one in entries}), "count"),
            "least": counted(min(gains)),
            "lower": counted(lower if len(effects) >= FEWEST else None, reason=few),
            "median": median,
            "upper": counted(upper if len(effects) >= FEWEST else None, reason=few),
            "most": counted(max(gains)),
            "proven": counted(proven, "count"),
        },
        [one.origin for one in entries],
    )


def _targets_of(record: Record) -> float:
    """The number of targets of a mechanism."""
    targets = record.cells["targets"]
    return targets.value or 0.0 if isinstance(targets, Figure) else 0.0


def _columns() -> list[Column]:
    return [
        Column("mechanism", "mechanism"),
        Column("effects", "effects", "figure"),
        Column("targets", "targets", "figure"),
        Column("classes", "kinds of machine", "figure"),
        Column("least", "least", "figure"),
        Column("lower", "lower quartile", "figure"),
        Column("median", "median", "figure"),
        Column("upper", "upper quartile", "figure"),
        Column("most", "greatest", "figure"),
        Column("proven", "proven gains", "figure"),
    ]


def _apart(effects: Sequence[Effect]) -> Table:
    columns = [
        Column("row", "row"),
        Column("mechanism", "mechanism"),
        Column("gain", "gain", "figure"),
        Column("why", "why no gain is expected"),
    ]
    records = [
        Record(
            {
                "row": entry.name,
                "mechanism": one.mechanism,
                "gain": figure(one.gain),
                "why": entry.result.no_gain,
            },
            [entry.origin],
        )
        for one in effects
        for entry in one.entries
    ]
    return Table("no-gain", "targets that expect no gain here, in no distribution", columns, records)


def _nothing(options: Options, told: str, selection: Selection, left_out: list[LeftOut]) -> Result:
    reasons = Counter(one.reason for one in left_out)
    summary = [told, *(f"{count} x {reason}." for reason, count in reasons.most_common(3))]
    faster = sum(one.row.verdict is Verdict.FASTER for one in selection.entries)
    if faster:
        summary.append(f"{units.plural('row', faster)} FASTER without an attribution to one mechanism.")
    return Result(
        analysis="improvements",
        title="Measured gains of mechanisms",
        summary=summary,
        tables=[Table("mechanisms", "gains by mechanism", _columns(), [])],
        options=asdict(options),
        left_out=[*selection.left_out, *left_out],
        sources=selection.sources,
    )
