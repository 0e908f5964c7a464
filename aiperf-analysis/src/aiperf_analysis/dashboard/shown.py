"""A `Result` as data of templates: cells as texts with links, pictures as SVG, options as fields of a form."""

import hashlib
import math
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any
from urllib.parse import quote, urlencode

import attrs
from attrs import frozen
from markupsafe import Markup

from aiperf_analysis.lines import run_id
from aiperf_analysis.selection import HISTORY_PICTURE
from aiperf_core.analysis_options import CHOICES, HELP, METAVAR, is_local, kind_of
from aiperf_core.report import cell_text
from aiperf_core.report import picture as pictures_of
from aiperf_core.report.result import Drawing, Figure, Origin, Record, Result, Table

MOST_BYTES = 600  # of a name in an address
OPEN_LINES = 30  # of the tables of a page; further tables are folded
MOST_SOURCES = 3  # links in a cell; more are counted
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")  # in ISO 8601
MOST_NEWEST = 50  # points of a line of a history in the table of its picture


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
    """A table. `traced` is whether a row leads to raw samples; `keys` are those of its columns.

    tips: the parts of its cells, of `interval` and `reason`, that are tips only. With both, a row is one line.
    """

    name: str
    title: str
    note: str
    heads: Sequence[tuple[str, str]]
    lines: Sequence[Line]
    traced: bool
    keys: Sequence[str] = ()
    tips: Sequence[str] = ()

    @property
    def is_terse(self) -> bool:
        """True where each row is one line."""
        return "interval" in self.tips


@frozen(kw_only=True)
class ShownPicture:
    """A picture with its message, and its figures as a table. `zoom` is the page of its series, empty for none."""

    name: str
    title: str
    message: str
    drawn: Markup
    table: ShownTable
    zoom: str = ""


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
    return f"/samples/{quote(run, safe='')}?{urlencode({'of': in_address(target), 'row': in_address(row)})}"


def target_address(target: str) -> str:
    """The page of a target."""
    return f"/target/{quoted(target)}"


def in_address(name: str) -> str:
    """A name as an address holds it: itself, and its hash where no server would take the address."""
    try:
        if len(quote(name, safe="")) <= MOST_BYTES:
            return name
    except UnicodeEncodeError:
        pass
    return f"sha256:{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:32]}"


def is_named(name: str, asked: str) -> bool:
    """Whether an address asks for this name."""
    return asked in (name, in_address(name))


def quoted(text: str) -> str:
    """A name as a part of an address."""
    return quote(in_address(text), safe="")


def literal(name: str) -> str:
    """The pattern of targets that a name alone matches."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)


def table(one: Table) -> ShownTable:
    """A table of a result."""
    lines = []
    for record in one.records:
        cells = [_cell(record.cells.get(column.key), column.form) for column in one.columns]
        sources = _sources(record.origins)
        if len(record.origins) == 1 and cells:
            cells[0] = attrs.evolve(cells[0], href=sources[0][1])
            sources = []
        elif cells and record.origins:
            cells[0] = attrs.evolve(cells[0], href=_lead(record, cells[0].text))
        lines.append(Line(cells=cells, sources=sources, more=len(record.origins) - len(sources) if sources else 0))
    return ShownTable(
        name=one.name,
        title=one.title,
        note=one.note,
        heads=[(column.title, column.form) for column in one.columns],
        lines=lines,
        traced=any(line.sources for line in lines),
        keys=[column.key for column in one.columns],
    )


def _lead(record: Record, name: str) -> str:
    """Where a record of several rows leads: to its series, or to the row that it is named for; empty for neither."""
    key, first = record.cells.get("key"), record.origins[0]
    if isinstance(key, str):
        return f"/series/{quoted(key)}"
    return address_of(first) if name in (first.row, f"{first.target}:{first.row}") else ""


def linked(one: ShownTable, leads: Sequence[Mapping[int, tuple[str, str]]]) -> ShownTable:
    """The table with a text and an address for some cells of each line, by the place of the cell."""
    lines = []
    for line, of in zip(one.lines, leads, strict=True):
        cells = list(line.cells)
        for place, (text, href) in of.items():
            cells[place] = attrs.evolve(cells[place], text=text or cells[place].text, href=href)
        lines.append(attrs.evolve(line, cells=cells))
    return attrs.evolve(one, lines=lines)


def leading(one: Table, where: str) -> ShownTable:
    """A list whose lines lead to pages of their own: `where` and the id of each, which is then no column."""
    found = table(one)
    place = found.keys.index("id")
    leads = [{0: ("", f"{where}{line.cells[place].text}")} for line in found.lines]
    return folded(linked(found, leads), {"id": ""})


def folded(one: ShownTable, into: Mapping[str, str]) -> ShownTable:
    """The table without some columns, whose texts stand below those of other columns; an empty name drops them."""
    places = {key: place for place, key in enumerate(one.keys)}
    kept = [place for key, place in places.items() if key not in into]
    lines = []
    for line in one.lines:
        cells = list(line.cells)
        for key, other in into.items():
            text = cells[places[key]].text
            if other and text not in ("", "-"):
                at = places[other]
                cells[at] = attrs.evolve(cells[at], interval=", ".join(filter(None, (cells[at].interval, text))))
        lines.append(attrs.evolve(line, cells=[cells[place] for place in kept]))
    return attrs.evolve(
        one, lines=lines, heads=[one.heads[place] for place in kept], keys=[one.keys[place] for place in kept]
    )


def arranged(one: ShownTable, first: Sequence[str]) -> ShownTable:
    """The table with these columns first."""
    order = [one.keys.index(key) for key in first]
    order += [place for place in range(len(one.keys)) if place not in order]
    return attrs.evolve(
        one,
        heads=[one.heads[place] for place in order],
        keys=[one.keys[place] for place in order],
        lines=[attrs.evolve(line, cells=[line.cells[place] for place in order]) for line in one.lines],
    )


def opened(tables: Sequence[ShownTable], pictures: Sequence[ShownPicture]) -> list[tuple[ShownTable, bool]]:
    """Tables, each with False where a page folds it: beyond the first `OPEN_LINES` of a page with several parts."""
    if len(tables) + len(pictures) <= 2:
        return [(one, True) for one in tables]
    ends = accumulate(len(one.lines) for one in tables)
    return [(one, not one.lines or end <= OPEN_LINES) for one, end in zip(tables, ends, strict=True)]


def filled(one: ShownTable) -> ShownTable:
    """The table without the columns that have a value in no line. The note names them, with the reason of all lines."""
    places = range(1, len(one.heads)) if one.lines else ()
    empty = [place for place in places if all(_is_empty(line.cells[place]) for line in one.lines)]
    if not empty:
        return one
    told = []
    for place in empty:
        reasons = {line.cells[place].reason for line in one.lines}
        reason = reasons.pop() if len(reasons) == 1 else ""
        told.append(f"{one.heads[place][0]} ({reason})" if reason else one.heads[place][0])
    named = ", ".join(filter(None, told))
    kept = [place for place in range(len(one.heads)) if place not in empty]
    return attrs.evolve(
        one,
        note=" ".join(filter(None, (one.note, named and f"Not shown: {named}."))),
        heads=[one.heads[place] for place in kept],
        keys=[one.keys[place] for place in kept] if one.keys else (),
        lines=[attrs.evolve(line, cells=[line.cells[place] for place in kept]) for line in one.lines],
    )


def _is_empty(cell: Cell) -> bool:
    return cell.text in ("", "-") and not cell.href and not cell.interval


def _sources(origins: Sequence[Origin]) -> list[tuple[str, str]]:
    """Names and addresses of the first origins. Those of one name get a number: links that differ read differently."""
    counts = Counter(map(_named, origins))
    numbers: Counter[str] = Counter()
    found = []
    for origin in origins[:MOST_SOURCES]:
        name = _named(origin)
        numbers[name] += 1
        found.append((f"{name} {numbers[name]}" if counts[name] > 1 else name, address_of(origin)))
    return found


def _named(origin: Origin) -> str:
    return origin.row or origin.target or "run"


def _cell(cell: Any, form: str) -> Cell:
    text = cell_text.text(cell)
    return Cell(
        text=f"{text[:10]} {text[11:16]}" if _MOMENT.match(text) else text,
        form=form,
        interval=cell_text.interval(cell),
        reason=cell_text.reason(cell),
        sort=sorted_by(cell),
    )


def sorted_by(cell: Any) -> str:
    """What the script sorts by: of a figure its value, of a text nothing, since the text itself serves."""
    value = cell.value if isinstance(cell, Figure) else cell
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    return repr(float(value))


_DRAWN: "OrderedDict[int, tuple[Result, list[ShownPicture]]]" = OrderedDict()
_KEPT = 16  # results whose pictures stay drawn
_LOCK = threading.Lock()


def pictures(result: Result) -> list[ShownPicture]:
    """The pictures of a result. Those of the last results stay drawn, since a site keeps its results."""
    with _LOCK:
        kept = _DRAWN.get(id(result))
    if kept is None:
        kept = (result, [_picture(one) for one in result.drawings])
        with _LOCK:
            _DRAWN[id(result)] = kept
            while len(_DRAWN) > _KEPT:
                _DRAWN.popitem(last=False)
    return kept[1]


def _picture(one: Drawing) -> ShownPicture:
    return ShownPicture(
        name=one.name,
        title=one.title,
        message=one.message,
        drawn=pictures_of.both(one, address_of),
        table=_of_drawing(one),
        zoom=_zoom(one.name),
    )


def _zoom(name: str) -> str:
    """The page of the series of a picture of a history; empty for other pictures."""
    digest = name.removeprefix(HISTORY_PICTURE)
    return "" if digest == name else f"/series/{digest}"


def _of_drawing(one: Drawing) -> ShownTable:
    """The figures of a picture; each leads to the row that it comes from. Of a history the newest, its page has all."""
    most = MOST_NEWEST if _zoom(one.name) else None
    newest = [attrs.evolve(series, points=series.points[-most:]) if most else series for series in one.series]
    left = sum(len(series.points) for series in one.series) - sum(len(series.points) for series in newest)
    shown = table(pictures_of.table(attrs.evolve(one, series=newest)))
    if not left:
        return shown
    note = f"The newest {most} points of each line; {left:,} older ones are on the page of the series."
    return attrs.evolve(shown, note=note)


def form(options: type[Any], query: Mapping[str, Sequence[str]]) -> list[Option]:
    """The fields of the options of an analysis, with what the query gives. Options of command lines are not shown."""
    found = []
    for one in attrs.fields(options):
        if is_local(options, one):
            continue
        name = one.name.replace("_", "-")
        kind, choices = kind_of(options, one.name), one.metadata.get(CHOICES, ())
        found.append(
            Option(
                name=name,
                label=name.replace("-", " "),
                help=one.metadata.get(HELP, ""),
                kind="flag" if kind is bool else "choice" if choices and kind is str else "text",
                value=",".join(query.get(name, ())),
                choices=choices,
                placeholder=_default(one.default) or ("" if choices else one.metadata.get(METAVAR) or ""),
            )
        )
    return found


def _default(value: Any) -> str:
    if value in (None, (), "", False):
        return ""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
