"""The runs of one series over time, with zoom: every step is an address, and every point leads to its raw samples.

Of a long series the picture shows the extremes of equal parts. A click on a part leads to that part alone, where each
run is a point: from any point there are at most two steps to the raw samples.
"""

import statistics
from collections.abc import Sequence

from attrs import frozen
from markupsafe import Markup

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View, whole_number
from aiperf_analysis.dashboard.pages import steps
from aiperf_analysis.sources.courses import RunCourse
from aiperf_core import units
from aiperf_core.errors import UsageError
from aiperf_core.report import cell_text
from aiperf_core.report import picture as pictures
from aiperf_core.report.drawings import spans_decades
from aiperf_core.report.marks import FIT
from aiperf_core.report.metrics import STORED, Metric
from aiperf_core.report.result import Axis, Band, Column, Drawing, Point, Record, Series, Table, counted, figure
from aiperf_core.report.thinning import kept

MOST_SINGLE = 200  # runs of a range whose points are all drawn and listed; of a longer one parts of this length
AROUND = 20  # runs on either side of a step, in the range to which it leads
MOST_DRAWN = 300  # runs of a longer range whose points are drawn
MEDIANS, LEAST_RUNS = 40, 10  # of a line of medians: their number at most, and the least runs of each


@frozen(kw_only=True)
class Window:
    """The runs that are shown: from `first` to `last` of `every`, by their numbers."""

    key: str
    metric: Metric
    every: Sequence[steps.Run]
    first: int
    last: int
    found: steps.Found

    @property
    def runs(self) -> Sequence[steps.Run]:
        """The runs within."""
        return self.every[self.first - 1 : self.last]

    @property
    def asks(self) -> list[tuple[str, str]]:
        """The figure as a query; the time needs none."""
        return [("metric", self.metric.name)] if self.metric.name != "time" else []

    def address(self, first: int, last: int) -> str:
        """The address of another range, moved into the series where it reaches beyond."""
        whole, length = len(self.every), min(last - first, len(self.every) - 1)
        first = min(max(first, 1), whole - length)
        pairs = list(self.asks)
        if first > 1 or first + length < whole:
            pairs += [("from", str(first)), ("to", str(first + length))]
        return filters.with_query(f"/series/{self.key}", pairs)

    @property
    def moves(self) -> list[tuple[str, str, str]]:
        """The steps to other ranges: name, key of the script, address. Only steps that lead elsewhere."""
        length = self.last - self.first + 1
        half = max(1, length // 2)
        found = [
            ("Zoom in", "in", self.address(self.first + length // 4, self.first + length // 4 + max(half - 1, 1))),
            ("Zoom out", "out", self.address(self.first - half, self.last + half)),
            ("Earlier", "earlier", self.address(self.first - half, self.last - half)),
            ("Later", "later", self.address(self.first + half, self.last + half)),
            ("All runs", "all", self.address(1, len(self.every))),
        ]
        here = self.address(self.first, self.last)
        return [one for one in found if one[2] != here]

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The parts of a range that is too long for single points: their first and last runs."""
        if len(self.runs) <= MOST_SINGLE:
            return []
        starts = range(self.first, self.last + 1, MOST_SINGLE)
        return [(start, min(start + MOST_SINGLE - 1, self.last)) for start in starts]


@frozen
class _Drawn:
    """What a page shows of a range, which takes long to draw."""

    told: str
    picture: Markup
    steps: shown.ShownTable | None
    table: shown.ShownTable


def page(asked: Asked) -> View:
    """A range of the series with the key of the address: `metric`, and `from` and `to` as numbers of runs."""
    course = asked.site.series(asked.path["key"])
    window = _window(asked, course)
    title = course.title
    name = ("range", window.key, window.metric.name, str(window.first), str(window.last))
    drawn = asked.site.kept(name, lambda: _drawn(window, title))
    return View(
        template="series.html.jinja",
        title=title,
        data={
            "course": course,
            "window": window,
            "told": drawn.told,
            "steps_told": window.found.told,
            "steps": drawn.steps,
            "picture": drawn.picture,
            "table_shown": drawn.table,
            "metrics": [
                (name, filters.with_query(f"/series/{window.key}", [("metric", name)] if name != "time" else []))
                for name, found in course.figures.items()
                if any(found)
            ],
            "history": filters.with_query(
                "/history", [("target", shown.literal(course.key.target)), ("row", course.key.implementation)]
            ),
        },
        command=["analyze", "history", *asked.site.source.arguments, "--target", course.key.target,
                 "--row", course.key.implementation, "--metric", window.metric.name],
        api=filters.with_query(f"/api/v1/series/{window.key}", window.asks),
        csv=True,
        crumbs=[("History", "/history"), (course.key.target, shown.target_address(course.key.target))],
    )  # fmt: skip


def _drawn(window: Window, title: str) -> _Drawn:
    picture = pictures.both(_drawing(window, title), shown.address_of) if window.every else Markup("")
    return _Drawn(_message(window), picture, _steps(window), _table(window))


def _window(asked: Asked, course: RunCourse) -> Window:
    name = metric_of(asked, course)
    every, found = of_metric(asked, course, name)
    last = whole_number("to", asked.one("to", str(max(len(every), 1))), 10**8)
    first = whole_number("from", asked.one("from", "1"), 10**8)
    first, last = max(first, 1), min(max(last, 1), max(len(every), 1))
    if first > last:
        there = units.plural("run", len(every))
        raise UsageError(f"from must not be greater than to; got {first:,} and {last:,} of {there}.")
    return Window(key=asked.path["key"], metric=STORED[name], every=every, first=first, last=last, found=found)


def metric_of(asked: Asked, course: RunCourse) -> str:
    """The metric that a query names. Raises UsageError for one that the series does not have."""
    name = asked.one("metric", "time")
    if name not in course.figures:
        raise UsageError(f"metric takes one of {', '.join(course.figures)}; got {cell_text.text(name[:40])!r}.")
    return name


def of_metric(asked: Asked, course: RunCourse, name: str) -> tuple[list[steps.Run], steps.Found]:
    """The runs of a series that have a figure, and the steps among them; both stay in memory."""
    every = asked.site.kept(("runs", asked.path["key"], name), lambda: steps.runs_of(course, name))
    found = asked.site.kept(("steps", asked.path["key"], name), lambda: steps.find(every, STORED[name], course.floor))
    return every, found


def _message(window: Window) -> str:
    """What the picture shows, as a sentence."""
    runs = window.runs
    if not runs:
        return f"No run of this series has the figure '{window.metric.name}'."
    values = [one.figure.value for one in runs]
    low, half, high = (_figure(value, window.metric) for value in (min(values), statistics.median(values), max(values)))
    which = f"Runs {window.first:,} to {window.last:,} of {len(window.every):,}"
    days = f"{runs[0].created[:10]} to {runs[-1].created[:10]}"
    inside = len(steps.borders(window.found, window.first, window.last))
    told = f" {units.plural('step', inside)} within." if inside else ""
    return f"{which}, {days}: {window.metric.name} from {low} to {high}, median {half}.{told}"


def _figure(value: float, metric: Metric) -> str:
    return cell_text.text(counted(value, metric.unit))


def _drawing(window: Window, title: str) -> Drawing:
    runs, metric = window.runs, window.metric
    better = "lower" if metric.better == "down" else "higher"
    return Drawing(
        name="series",
        title=title,
        kind="scatter",
        message=_message(window),
        x=Axis(title="run, in the order of time", unit="count", ends=(window.first - 0.5, window.last + 0.5)),
        y=Axis(
            title=f"{metric.name}, {better} is better",
            unit=metric.unit,
            log=spans_decades(counted(run.figure.value) for run in runs),
        ),
        series=[_points(runs, metric, MOST_DRAWN if window.parts else MOST_SINGLE), *_lines(window)],
        borders=steps.borders(window.found, window.first, window.last),
        bands=[*steps.bands(window.found, window.first, window.last), *_areas(window)],
    )


def _areas(window: Window) -> list[Band]:
    """The parts of a long range; of a short one its whole, which shows the script where the plane is."""
    if not window.parts:
        return [Band(begin=window.first - 0.5, end=window.last + 0.5, kind="area")]
    return [
        Band(
            begin=first - 0.5,
            end=last + 0.5,
            title=f"zoom to runs {first:,} to {last:,}",
            kind="area",
            href=window.address(first, last),
        )
        for first, last in window.parts
    ]


def _points(runs: Sequence[steps.Run], metric: Metric, most: int) -> Series:
    """The runs; of a long range the extremes of equal parts."""
    points = [
        Point(
            label="",
            x=counted(run.number, "count"),
            y=figure(run.figure, metric.unit),
            origin=run.origin,
        )
        for run in (runs[at] for at in kept([run.figure.value for run in runs], most))
    ]
    return Series(name="runs", points=points)


def _lines(window: Window) -> list[Series]:
    """The levels between steps; where none were sought in the whole range, medians."""
    if window.found.skipped >= window.first:
        return _medians(window.runs, window.metric)
    return steps.levels(window.found, window.first, window.last)


def _medians(runs: Sequence[steps.Run], metric: Metric) -> list[Series]:
    """The medians of equal parts as a line; none for a short range."""
    length = max(-(-len(runs) // MEDIANS), LEAST_RUNS)
    if len(runs) < 6 * length:
        return []
    points = [
        Point(
            label="",
            x=counted((some[0].number + some[-1].number) / 2, "count"),
            y=counted(statistics.median(run.figure.value for run in some), metric.unit),
            mark=FIT,
        )
        for start in range(0, len(runs), length)
        for some in [runs[start : start + length]]
    ]
    return [Series(name=f"medians of {length} runs", points=points, joined=True)]


def _table(window: Window) -> shown.ShownTable:
    """The runs, each with its samples; of a long range its parts, each with the range that it leads to."""
    if window.parts:
        return _of_parts(window)
    columns = [
        Column("run", "run", "figure"),
        Column("created", "began"),
        Column("commit", "commit"),
        Column("verdict", "verdict", "verdict"),
        Column("value", window.metric.name, "figure"),
    ]
    records = [
        Record(
            {"run": one.number, "created": one.created[:19], "commit": (one.git or "")[:12] or None,
             "verdict": one.verdict, "value": figure(one.figure, window.metric.unit)},
            [one.origin],
        )
        for one in window.runs
    ]  # fmt: skip
    return shown.table(Table("runs", "Runs, each with its raw samples", columns, records))


def _steps(window: Window) -> shown.ShownTable | None:
    """The steps of the whole series, newest first, each with the range around it; None for none."""
    if not window.found.steps:
        return None
    table = steps.table(window.found, window.every)
    leads = [
        {0: ("", window.address(number - AROUND, number + AROUND))}
        for number in (window.found.number(one.at) for one in reversed(window.found.steps))
    ]
    return shown.linked(shown.table(table), leads)


def _of_parts(window: Window) -> shown.ShownTable:
    columns = [
        Column("range", "runs"),
        Column("begin", "first began"),
        Column("end", "last began"),
        Column("low", "lowest", "figure"),
        Column("half", "median", "figure"),
        Column("high", "highest", "figure"),
    ]
    records = []
    for first, last in window.parts:
        some = window.every[first - 1 : last]
        values = [one.figure.value for one in some]
        low, half, high = (
            counted(value, window.metric.unit) for value in (min(values), statistics.median(values), max(values))
        )
        records.append(
            Record({"range": f"{first:,} to {last:,}", "begin": some[0].created[:19], "end": some[-1].created[:19],
                    "low": low, "half": half, "high": high})
        )  # fmt: skip
    found = shown.table(Table("parts", "Parts of this range, each with its runs", columns, records))
    return shown.linked(found, [{0: ("", window.address(first, last))} for first, last in window.parts])
