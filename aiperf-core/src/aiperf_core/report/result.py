"""A result as plain data: sentences, tables and pictures.

A command, a page and an endpoint render the same `Result`. The records do no I/O: `document` gives the JSON document.
Units are SI and are named in a figure's `unit`. What was not measured is a figure without a value, with the reason.
"""

import math
from pathlib import PurePath
from typing import Any, Literal

from attrs import asdict, field, frozen

from aiperf_core.errors import ExitCode

SCHEMA_VERSION = 1

# Of an estimated figure: a statement about values that were not measured.
Certainty = Literal["measured", "counted", "derived", "estimated"]
Form = Literal["text", "figure", "verdict"]
PictureKind = Literal["intervals", "lines", "scatter", "strip", "waterfall", "bars", "flame", "timeline", "cells"]
# Why a figure beyond the range of numbers has no value.
BEYOND = "beyond the range of numbers"
Status = Literal["ok", "nothing", "distrusted", "regression", "inconclusive"]

EXIT_CODES: dict[str, ExitCode] = {
    "ok": ExitCode.OK,
    "nothing": ExitCode.FAILED,
    "distrusted": ExitCode.INVALID,
    "regression": ExitCode.BELOW_EXPECTATION,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


@frozen
class Origin:
    """Where a figure comes from: a row of a bundle.

    bundle: the seal of the bundle; of a bundle without a seal, its path.
    target, row: null for a figure of the whole bundle, or of the whole target.
    """

    bundle: str
    target: str | None = None
    row: str | None = None


@frozen(kw_only=True)
class Figure:
    """A number with its 95 % interval.

    value: null where there is none; `reason` then says why.
    low, high: the ends of the interval; null where the figure has none, as of a counted one. Of a figure without a
        value, one end alone is a bound, shown as `< 3.2 mJ`.
    unit: `s`, `J`, `W`, `B`, `B/s`, `FLOP/s`, `USD`, `1` (a ratio), `1/s`, `%`, `count`, `number` (such as an error)
        and so on.
    certainty: how the figure came about.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str = "1"
    certainty: Certainty = "measured"
    reason: str | None = None


# A cell of a table.
Cell = str | int | bool | Figure | None


@frozen
class Column:
    """A column of a table.

    key: its name in JSON and CSV.
    title: its head.
    form: how cells are shown: as text, as figures (to the right), or as verdicts (coloured).
    """

    key: str
    title: str
    form: Form = "text"


@frozen
class Record:
    """A row of a table: the cells by key of the column, and the rows of bundles from which they come."""

    cells: dict[str, Cell]
    origins: list[Origin] = field(factory=list)


@frozen
class Table:
    """A table. The first column names the record.

    note: what a reader must know before the figures; empty for none.
    """

    name: str
    title: str
    columns: list[Column]
    records: list[Record]
    note: str = ""


@frozen(kw_only=True)
class Axis:
    """An axis of a picture.

    title: what it shows, with the direction that is better where there is one.
    unit: as of `Figure`.
    log: whether it is logarithmic.
    ends: its ends, at which values beyond stand; by the figures where it is null.
    places: names with places on it, shown in place of round values.
    """

    title: str
    unit: str = "1"
    log: bool = False
    ends: tuple[float, float] | None = None
    places: dict[str, float] = field(factory=dict)


@frozen(kw_only=True)
class Point:
    """A point of a picture.

    label: its name; shown where there is room, and in the tip.
    x, y: where an axis has names instead of numbers, the figure's value is the index of the name.
    mark: a word that decides the form, such as a verdict; a role, or `best`; `front`, `dominated`, `undecided`. A `fit`
        has no form of its own: only the line through it is drawn.
    colour: the class of its colour, of an implementation the same in all pictures of its target; empty for that of the
        series.
    middle: of `intervals` the range of the middle half of the samples, drawn as a thick line; null for none.
    short: of points in a plane the text beside the point in place of its label, such as a number; a legend below the
        plane gives the label.
    """

    label: str
    x: Figure
    y: Figure
    mark: str = ""
    origin: Origin | None = None
    colour: str = ""
    middle: tuple[float, float] | None = None
    short: str = ""


@frozen(kw_only=True)
class Series:
    """Points of one name. `joined` draws a line through them in their order; a point without a figure divides it."""

    name: str
    points: list[Point]
    joined: bool = False


@frozen(kw_only=True)
class Span:
    """A piece of a flame graph, a timeline or a grid of cells.

    lane: of a timeline its lane; of a flame graph the depth, as a text; of cells the name of their row.
    start, length: in the unit of the horizontal axis.
    kind: decides the colour, such as `compute`, `communication`, `copy`, `idle`.
    short: its name within its box; empty for the label, and of cells for none.
    group: of cells the grid that they belong to; its name stands above its rows.
    """

    label: str
    lane: str
    start: float
    length: float
    kind: str = ""
    short: str = ""
    group: str = ""


@frozen(kw_only=True)
class Band:
    """A range of the horizontal axis, such as the differences that do not matter.

    title: its tip.
    kind: `floor` is drawn; an `area` is not, and may lead to a picture of its own.
    href: the address that it leads to; empty for none.
    """

    begin: float
    end: float
    title: str = ""
    kind: Literal["floor", "area"] = "floor"
    href: str = ""


@frozen(kw_only=True)
class Drawing:
    """A picture as data.

    kind: `intervals` (a line per record, with whiskers), `lines` and `scatter` (points in a plane), `strip` (such a
        plane of little height, below others), `waterfall` (steps of a ladder), `bars`, `flame` and `timeline` (spans),
        `cells` (spans in the rows of grids, between the ends of the horizontal axis).
    message: a sentence that says what the picture shows; it is its alternative text.
    borders: places on the horizontal axis with a name, such as a change of driver.
    bands: ranges of the horizontal axis.
    """

    name: str
    title: str
    kind: PictureKind
    message: str
    x: Axis
    y: Axis
    series: list[Series] = field(factory=list)
    spans: list[Span] = field(factory=list)
    borders: dict[str, float] = field(factory=dict)
    bands: list[Band] = field(factory=list)


@frozen
class LeftOut:
    """Row, target or unreadable bundle that did not enter the figures.

    what: its name. verdict: of a row; empty for others.
    """

    what: str
    verdict: str
    reason: str
    origin: Origin | None = None


@frozen
class ChangedBundle(LeftOut):
    """A bundle that was changed after its run ended."""


@frozen
class Source:
    """A bundle that the result is based on. `id` is its seal, or its path where it has none."""

    id: str
    path: str
    created: str
    hardware: str


@frozen(kw_only=True)
class Result:
    """Result of an analysis.

    analysis: its name.
    title: a headline.
    summary: sentences with the conclusion, the most important first.
    status: decides the exit code.
    options: the options that it was called with.
    tables, drawings: the first is the main one.
    assumptions: what the figures rest on and was not measured.
    left_out: what did not enter, with the reason.
    sources: the bundles.
    details: further data of this analysis, for programs.
    text: a document in Markdown that a terminal shows in place of the tables; empty for none.
    """

    analysis: str
    title: str
    summary: list[str]
    status: Status = "ok"
    options: dict[str, Any] = field(factory=dict)
    tables: list[Table] = field(factory=list)
    drawings: list[Drawing] = field(factory=list)
    assumptions: list[str] = field(factory=list)
    left_out: list[LeftOut] = field(factory=list)
    sources: list[Source] = field(factory=list)
    details: dict[str, Any] = field(factory=dict)
    text: str = ""
    schema_version: int = SCHEMA_VERSION

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that ends with this result."""
        return EXIT_CODES[self.status]


def figure(estimate: Any, unit: str = "1", certainty: Certainty = "measured", reason: str = "not measured") -> Figure:
    """The figure of an `Estimate` (value, low, high); of None, a figure without a value and with the reason."""
    if estimate is None:
        return Figure(value=None, unit=unit, certainty=certainty, reason=reason)
    if not all(map(math.isfinite, (estimate.value, estimate.low, estimate.high))):
        return Figure(value=None, unit=unit, certainty=certainty, reason=BEYOND)
    return Figure(value=estimate.value, low=estimate.low, high=estimate.high, unit=unit, certainty=certainty)


def counted(value: float | None, unit: str = "1", reason: str = "not measured") -> Figure:
    """The figure of a counted value, which has no interval; of None, with the reason."""
    if value is not None and not math.isfinite(value):
        value, reason = None, BEYOND
    return Figure(value=value, unit=unit, certainty="counted", reason=reason if value is None else None)


def document(result: Result) -> dict[str, Any]:
    """The result as a JSON document. Fields that are empty stay in it; paths and tuples become texts and lists."""
    found: dict[str, Any] = asdict(result, value_serializer=_plain)
    return found


def _plain(_: type, __: Any, value: Any) -> Any:
    return str(value) if isinstance(value, PurePath) else value
