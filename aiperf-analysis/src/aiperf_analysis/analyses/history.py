"""How figures changed over runs: steps with their place and size, drift, and what the newest run says."""

from attrs import asdict, evolve, frozen

from aiperf_analysis.history.changes import ALPHA, Course, Step
from aiperf_analysis.history.judged import FALSE_DISCOVERIES, LEAST, change, direction, judged, without_steps
from aiperf_analysis.history.newest import LEAST_RUNS, Standing
from aiperf_analysis.history.noise import finite_exp
from aiperf_analysis.history.series import Border, RunSeries, series_of
from aiperf_analysis.selection import HISTORY_PICTURE, Selection, required
from aiperf_analysis.sizes import Sizes
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.drawings import spans_decades
from aiperf_core.report.metrics import STORED
from aiperf_core.report.result import (
    Axis,
    Cell,
    Column,
    Drawing,
    Figure,
    LeftOut,
    Point,
    Record,
    Result,
    Series,
    Status,
    Table,
    counted,
    figure,
)

_MOST_DRAWN = 8  # series of one picture
_MOST_TOLD = 5  # series that a sentence names; the table has all


@frozen
class Options:
    """What is looked at, and what counts as a change."""

    metric: str = option("time", "The figure.", choices=tuple(STORED))
    row: tuple[str, ...] = option((), "Only these implementations; several by commas.", metavar="NAME,NAME")
    floor: float | None = option(
        None, "The smallest difference that matters. [default: the target's own]", metavar="FRACTION"
    )
    order: str = option("commit", "Order by the time of the commit or of the run.", choices=("commit", "created"))


@frozen
class Told:
    """A series with what was found in it. `course` is None for too few runs."""

    series: RunSeries
    course: Course | None
    standing: Standing


def analyze(selection: Selection, options: Options) -> Result:
    """Find steps and drift in the history of each row, and hold its newest run to the runs before it.

    A step is a change of level that chance makes in at most 1 % of series; a series needs 8 runs. Changes of the
    driver, of torch and of the machine are borders, and the first suspect of a step beside them. A newest run outside
    of the 99.8 % prediction interval is a SUSPECT; a second that agrees makes it a REGRESSION, or IMPROVED.
    """
    if options.floor is not None and not 0 <= options.floor < 1:
        raise UsageError(f"--floor takes a share from 0 to less than 1, such as 0.01; got {options.floor:g}.")
    metric = STORED[options.metric]
    believed = selection.entries
    required(believed, selection)
    if options.row:
        selection = selection.only(lambda entry: entry.row.name in options.row)
        if not selection.entries:
            there = sorted({one.row.name for one in believed})
            raise UsageError(
                f"no believed row is named {', '.join(options.row)!r}. There are: {', '.join(there[:20])}."
            )
    found = series_of(selection, metric, options.floor, options.order)
    long_ones = [one for one in found if len(one.runs) >= LEAST]
    told = [_told(one, len(long_ones)) for one in found]
    told = _discovered(told)
    steps = _steps_table(told)
    short = len(found) - len(long_ones)
    return Result(
        analysis="history",
        title=f"History of {metric.name}",
        summary=_summary(told, steps, short, metric.name),
        status=_status(told, long_ones),
        options=asdict(options),
        tables=[
            Table("series", "series", _SERIES_COLUMNS, [_series_record(one) for one in told], _note(short)),
            Table("steps", "steps", _STEP_COLUMNS, steps),
        ],
        drawings=_drawings(told),
        assumptions=_assumptions(told),
        left_out=[*selection.left_out, *_without(selection, found, metric.name)],
        sources=selection.sources,
        details={"series": [_details(one) for one in told]},
    )


def _told(series: RunSeries, family: int) -> Told:
    found = judged(series.estimates, series.floor, series.metric.better, family)
    return Told(series, found.course, found.standing)


def _discovered(told: list[Told]) -> list[Told]:
    """The series, with steps only where the false discoveries among all series stay below 5 %.

    The step-up procedure of Benjamini and Hochberg (Journal of the Royal Statistical Society B 57, 1995).
    """
    probable = sorted(one.course.p for one in told if one.course)
    limit = 0.0
    for rank, p in enumerate(probable, 1):
        if p <= FALSE_DISCOVERIES * rank / len(probable):
            limit = p
    limit = min(limit, ALPHA)
    kept = []
    for one in told:
        if one.course and one.course.steps and one.course.p > limit:
            one = evolve(one, course=without_steps(one.series.estimates, one.series.floor, one.standing))
        kept.append(one)
    return kept


_STEP_COLUMNS = [
    Column("series", "series"),
    Column("class", "kind of machine"),
    Column("at", "first run"),
    Column("commit", "commit"),
    Column("range", "between runs"),
    Column("change", "change", "figure"),
    Column("direction", "direction", "verdict"),
    Column("p", "p"),
    Column("suspect", "changed beside it"),
]


def _steps_table(told: list[Told]) -> list[Record]:
    records = []
    for one in told:
        for step in one.course.steps if one.course else []:
            run = one.series.runs[step.at]
            records.append(
                Record(
                    {
                        "series": one.series.name,
                        "key": one.series.key.digest,
                        "class": one.series.key.hardware,
                        "at": run.entry.run.created[:19],
                        "commit": run.commit,
                        "range": f"{step.first + 1} to {step.last + 1} of {len(one.series.runs)}",
                        "change": change(step.ratio),
                        "direction": direction(step.ratio, one.series.metric.better),
                        "p": f"{step.p:.2g}",
                        "suspect": "; ".join(near.told for near in _near(one.series, step)) or None,
                    },
                    [one.series.runs[step.at - 1].entry.origin, run.entry.origin],
                )
            )
    return records


def _near(series: RunSeries, step: Step) -> list[Border]:
    return series.near(step.first, step.last)


_SERIES_COLUMNS = [
    Column("series", "series"),
    Column("class", "kind of machine"),
    Column("runs", "runs"),
    Column("level", "level", "figure"),
    Column("spread", "spread of a run", "figure"),
    Column("steps", "steps"),
    Column("drift", "drift a run", "figure"),
    Column("newest", "newest", "verdict"),
    Column("change", "latest / expected", "figure"),
    Column("why", "why"),
]


def _series_record(one: Told) -> Record:
    series, found, standing = one.series, one.course, one.standing
    cells: dict[str, Cell] = {
        "series": series.name,
        "key": series.key.digest,
        "class": series.key.hardware,
        "runs": len(series.runs),
        "level": _level(one),
        "spread": Figure(value=100 * found.sd, unit="%", certainty="derived") if found else _missing(standing),
        "steps": len(found.steps) if found else None,
        "drift": _drift(found),
        "newest": standing.word,
        "change": _newest_change(one),
        "why": standing.reason,
    }
    return Record(cells, [series.runs[-1].entry.origin])


def _missing(standing: Standing, unit: str = "%") -> Figure:
    return Figure(value=None, unit=unit, reason=standing.reason)


def _level(one: Told) -> Figure:
    """The mean of the runs since the last step, with the interval of that mean."""
    from aiperf_core.stats.distributions import t_end

    unit = one.series.metric.unit
    if one.course is None:
        return _missing(one.standing, unit)
    last = one.course.segments[-1]
    half = t_end(max(2.0, len(one.series.runs) - len(one.course.segments))) * last.error
    return figure(Estimate(*(finite_exp(last.level + side) for side in (0.0, -half, half))), unit, "derived")


def _drift(found: Course | None) -> Figure | None:
    if found is None or found.drift is None:
        return None
    return change(found.drift.per_run)


def _newest_change(one: Told) -> Figure:
    standing = one.standing
    if standing.change is None or standing.expected is None:
        return Figure(value=None, unit="1", reason=standing.reason)
    expected, value = standing.expected, one.series.runs[-1].figure
    return Figure(
        value=standing.change, low=value.low / expected.value, high=value.high / expected.value, certainty="derived"
    )


def _summary(told: list[Told], steps: list[Record], short: int, metric: str) -> list[str]:
    judged = [one for one in told if one.course]
    sizes = Sizes.among(one.series.runs[-1].entry for one in told)
    words_of = {
        word: [one for one in judged if one.standing.word == word] for word in ("REGRESSION", "SUSPECT", "IMPROVED")
    }
    found = [
        f"{words(sizes.name(one.series.runs[-1].entry))} on {words(one.series.key.hardware)}: {word}, "
        f"{_percent(one.standing)}; "
        f"{one.standing.reason}."
        for word, those in words_of.items()
        for one in those
    ]
    if len(found) > _MOST_TOLD:
        found[_MOST_TOLD:] = [f"And {len(found) - _MOST_TOLD} more series, in the table below."]
    if judged:
        found.append(
            f"{len(judged)} series with at least {LEAST} runs: {units.plural('step', len(steps))}, {_drifts(judged)}."
        )
    elif told:
        most = max(len(one.series.runs) for one in told)
        found.append(
            f"No series has {LEAST} runs yet; the longest has {most}. Run the same targets {LEAST - most} more times: "
            "aiperf ci run SUITE, or aiperf run PATTERN."
        )
    else:
        found.append(f"No believed row has the figure '{metric}'.")
    noisy = sum(one.standing.word == "TOO NOISY" for one in judged)
    if noisy:
        found.append(f"{noisy} series TOO NOISY to judge their newest run: measure on a quiet machine, or longer.")
    if judged and short:
        found.append(f"{short} series with fewer runs have no steps yet.")
    return found


def _percent(standing: Standing) -> str:
    return f"{100 * ((standing.change or 1) - 1):+.2g} %"


def _drifts(judged: list[Told]) -> str:
    return units.plural("drift", sum(1 for one in judged if one.course and one.course.drift))


def _status(told: list[Told], long_ones: list[RunSeries]) -> Status:
    if any(one.standing.word == "REGRESSION" for one in told):
        return "regression"
    return "ok" if long_ones else "nothing"


def _note(short: int) -> str:
    return (
        f"Change detection needs {LEAST} runs, and a verdict on the latest run {LEAST_RUNS} runs before it."
        if short
        else ""
    )


def _assumptions(told: list[Told]) -> list[str]:
    found = [
        "A run's error is normal, t-like or in modes; neighbours may be alike. Steps are tested at 1 % a series, and "
        "over all series at a false discovery rate of 5 %.",
        "The prediction interval of the newest run takes the spread between runs of the whole series.",
    ]
    silent = sum(
        1
        for one in told
        if one.course
        for border in one.series.borders
        if not any(border in _near(one.series, step) for step in one.course.steps)
    )
    if silent:
        found.append(
            f"{units.plural('border', silent)} without a step beside: the runs on both sides were taken as one level."
        )
    return found


def _without(selection: Selection, found: list[RunSeries], metric: str) -> list[LeftOut]:
    """The rows without the figure."""
    there = {id(run.entry) for one in found for run in one.runs}
    return [
        LeftOut(one.name, one.row.verdict.value, f"the row has no {metric}", one.origin)
        for one in selection.entries
        if id(one) not in there and not (metric == "speedup" and one.row.role != "variant")
    ]


def _details(one: Told) -> dict[str, object]:
    series, found = one.series, one.course
    return {
        "series": series.name,
        "digest": series.key.digest,
        "runs": [
            {
                "bundle": run.entry.run.id,
                "when": run.when.isoformat(),
                "commit": run.commit,
                "figure": asdict(run.figure),
            }
            for run in series.runs
        ],
        "borders": [asdict(border) for border in series.borders],
        "segments": [asdict(segment) for segment in found.segments] if found else [],
        "steps": [asdict(step) for step in found.steps] if found else [],
        "alike": found.alike if found else None,
        "p": found.p if found else None,
        "newest": asdict(one.standing),
    }


# --- pictures


def _drawings(told: list[Told]) -> list[Drawing]:
    """A picture for each series; those with news first."""
    order = {"REGRESSION": 0, "SUSPECT": 1, "IMPROVED": 2}
    ranked = sorted(
        (one for one in told if one.course),
        key=lambda one: (order.get(one.standing.word, 3), -len(one.course.steps) if one.course else 0, one.series.name),
    )
    return [_drawing(one) for one in ranked[:_MOST_DRAWN]]


def _drawing(one: Told) -> Drawing:

    series, found = one.series, one.course
    assert found is not None
    metric = series.metric
    runs = [
        Point(
            label="" if place < len(series.runs) - 1 else (run.commit or run.entry.run.created[:10]),
            x=counted(place + 1, "count"),
            y=figure(run.figure, metric.unit),
            mark=one.standing.word if place == len(series.runs) - 1 and one.standing.word != "FINE" else "",
            origin=run.entry.origin,
        )
        for place, run in enumerate(series.runs)
    ]
    # From half a run before the first to half a run behind the last, so that a step is upright between two runs.
    level = [
        Point(label="", x=counted(place + 0.5, "count"), y=counted(finite_exp(segment.level), metric.unit), mark="fit")
        for segment in found.segments
        for place in (segment.start, segment.stop)
    ]
    levels = [Series(name="level", points=level, joined=True)]
    if one.standing.expected is not None:
        here = figure(one.standing.expected, metric.unit, "derived")
        levels.append(
            Series(
                name="predicted range for the latest run",
                points=[Point(label="", x=counted(len(runs), "count"), y=here)],
            )
        )
    borders: dict[str, float] = {}
    for border in series.borders:
        borders[border.told] = border.at + 0.5
    steps = ", ".join(f"{100 * (step.ratio.value - 1):+.2g} % at run {step.at + 1}" for step in found.steps)
    message = (
        f"{words(series.name)}: {len(series.runs)} runs, {f'steps: {steps}' if steps else 'no step'}; "
        f"the newest is {one.standing.word}"
    )
    better = "lower" if metric.better == "down" else "higher"
    return Drawing(
        name=f"{HISTORY_PICTURE}{series.key.digest}",
        title=f"{words(series.name)} on {words(series.key.hardware)}",
        kind="lines",
        message=message,
        x=Axis(title="run", unit="count"),
        y=Axis(
            title=f"{metric.name}, {better} is better", unit=metric.unit, log=spans_decades(point.y for point in runs)
        ),
        series=[Series(name="runs", points=runs), *levels],
        borders=borders,
    )
