"""A `Result` as data of templates: cells as texts with links, pictures as SVG, options as fields of a form."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import attrs
from attrs import frozen
from markupsafe import Markup

from aiperf_analysis.dashboard.source import run_id
from aiperf_analysis.options import CHOICES, HELP, METAVAR, is_local, kind_of
from aiperf_analysis.render import drawings, figures
from aiperf_analysis.result import Drawing, Figure, Origin, Result, Table
from aiperf_core.render import svg

MOST_SOURCES = 3  # links in a cell; more are counted


@frozen(kw_only=True)
class Cell:
    """A cell: its text, the interval below it, why it has no value, where it leads, and by what it is sorted."""

    text: str
    form: str
    interval: str = ""
    reason: str = ""
    href: str = ""
    sort: str = ""


@frozen(kw_only=True)
class Line:
    """A row of a table: its cells, and the raw samples that it comes from as pairs of name and address."""

    cells: Sequence[Cell]
    sources: Sequence[tuple[str, str]] = ()
    more: int = 0


@frozen(kw_only=True)
class ShownTable:
    """A table. `traced` is whether a row leads to raw samples."""

    name: str
    title: str
    note: str
    heads: Sequence[tuple[str, str]]
    lines: Sequence[Line]
    traced: bool


@frozen(kw_only=True)
class ShownPicture:
    """A picture with its message, and its figures as a table."""

    name: str
    title: str
    message: str
    drawn: Markup
    table: ShownTable


@frozen(kw_only=True)
class Option:
    """A field of the form of an analysis."""

    name: str
    label: str
    help: str
    kind: str
    value: str
    choices: Sequence[str] = ()
    placeholder: str = ""


def address_of(origin: Origin) -> str:
    """The page of an origin: of a row its raw samples, of a target or a bundle the run."""
    run = f"/run/{quote(run_id(origin.bundle), safe='')}"
    if origin.target is None:
        return run
    if origin.row is None:
        return f"{run}#{quote(origin.target)}"
    return row_address(run_id(origin.bundle), origin.target, origin.row)


def row_address(run: str, target: str, row: str) -> str:
    """The page of the raw samples of a row. Names are in the query, where every text is harmless."""
    return f"/samples/{quote(run, safe='')}?{urlencode({'of': target, 'row': row})}"


def target_address(target: str) -> str:
    """The page of a target."""
    return f"/target/{quote(target, safe='')}"


def quoted(text: str) -> str:
    """A name as a part of an address."""
    return quote(text, safe="")


def literal(name: str) -> str:
    """The pattern of targets that a name alone matches."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)


def table(one: Table) -> ShownTable:
    """A table of a result."""
    lines = []
    for record in one.records:
        cells = [_cell(record.cells.get(column.key), column.form) for column in one.columns]
        sources = [(_named(origin), address_of(origin)) for origin in record.origins]
        if len(sources) == 1 and cells:
            cells[0] = attrs.evolve(cells[0], href=sources[0][1])
        shown = sources[:MOST_SOURCES] if len(sources) > 1 else ()
        lines.append(Line(cells=cells, sources=shown, more=len(sources) - len(shown) if shown else 0))
    return ShownTable(
        name=one.name,
        title=one.title,
        note=one.note,
        heads=[(column.title, column.form) for column in one.columns],
        lines=lines,
        traced=any(line.sources for line in lines),
    )


def _named(origin: Origin) -> str:
    return origin.row or origin.target or "run"


def _cell(cell: Any, form: str) -> Cell:
    return Cell(
        text=figures.text(cell),
        form=form,
        interval=figures.interval(cell),
        reason=figures.reason(cell),
        sort=sorted_by(cell),
    )


def sorted_by(cell: Any) -> str:
    """What the script sorts by: of a figure its value, of a text nothing, since the text itself serves."""
    value = cell.value if isinstance(cell, Figure) else cell
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return repr(float(value))


def pictures(result: Result) -> list[ShownPicture]:
    """The pictures of a result."""
    return [
        ShownPicture(
            name=one.name,
            title=one.title,
            message=one.message,
            drawn=svg.markup(drawings.picture(one, address_of)),
            table=_of_drawing(one),
        )
        for one in result.drawings
    ]


def _of_drawing(one: Drawing) -> ShownTable:
    """The figures of a picture; each leads to the row that it comes from."""
    heads = [("series", "text"), ("point", "text"), (one.x.title, "figure"), (one.y.title, "figure"), ("", "text")]
    lines = [
        Line(
            cells=[
                Cell(text=series.name, form="text"),
                Cell(text=point.label or "·", form="text", href=address_of(point.origin) if point.origin else ""),
                _cell(point.x, "figure"),
                _cell(point.y, "figure"),
                Cell(text=point.mark, form="verdict"),
            ]
        )
        for series in one.series
        for point in series.points
    ]
    if one.spans:
        heads = [("piece", "text"), ("lane", "text"), ("kind", "text"), (f"start ({one.x.unit})", "figure"),
                 (f"length ({one.x.unit})", "figure")]  # fmt: skip
        lines = [
            Line(
                cells=[
                    *(Cell(text=text, form="text") for text in (span.label, span.lane, span.kind)),
                    *(_cell(Figure(value=value, unit=one.x.unit), "figure") for value in (span.start, span.length)),
                ]
            )
            for span in one.spans
        ]
    return ShownTable(name=f"picture-{one.name}", title=one.title, note="", heads=heads, lines=lines, traced=False)


def form(options: type[Any], query: Mapping[str, Sequence[str]]) -> list[Option]:
    """The fields of the options of an analysis, with what the query gives. Options of command lines are not shown."""
    found = []
    for one in attrs.fields(options):
        if is_local(options, one):
            continue
        name = one.name.replace("_", "-")
        kind = kind_of(options, one.name)
        found.append(
            Option(
                name=name,
                label=name.replace("-", " "),
                help=one.metadata.get(HELP, ""),
                kind="flag" if kind is bool else "choice" if one.metadata.get(CHOICES) and kind is str else "text",
                value=",".join(query.get(name, ())),
                choices=one.metadata.get(CHOICES, ()),
                placeholder=_default(one.default) or one.metadata.get(METAVAR) or "",
            )
        )
    return found


def _default(value: Any) -> str:
    if value in (None, (), "", False):
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
