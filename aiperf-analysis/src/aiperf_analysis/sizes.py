"""Tells rows of one implementation apart that were measured at several sizes of its workload.

A size is a column of a table of rows, and a part of a name that stands alone, as beside a point of a picture. Both are
left out where the rows of each target have one size. `analyzed` does this for the result of any analysis.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from aiperf_analysis.selection import Entry, Selection
from aiperf_core import units
from aiperf_core.report.result import Column, Drawing, LeftOut, Origin, Point, Record, Result, Series, Table

COLUMN = Column("size", "size")
# The columns of a table whose records are rows or targets, and those behind which the size stands.
NAMING = ("row", "target", "series", "ladder")
BEHIND = ("row", "target", "series", "ladder", "class")
Params = Mapping[str, float]
# The size of each target of each bundle.
Measured = Mapping[tuple[str, str], Params]


@frozen
class Sizes:
    """The targets with several sizes among some rows, each with the names of the parameters that differ."""

    differing: Mapping[str, frozenset[str]]

    @classmethod
    def among(cls, entries: Iterable[Entry]) -> "Sizes":
        """Those among these rows."""
        results = {id(one.result): one.result for one in entries}
        return cls.of((one.target, one.problem.params) for one in results.values())

    @classmethod
    def of(cls, measured: Iterable[tuple[str, Params]]) -> "Sizes":
        """Those of targets with the sizes at which they were measured."""
        first: dict[str, Params] = {}
        found: dict[str, set[str]] = {}
        for target, params in measured:
            held = first.setdefault(target, params)
            if held != params:
                differ = {name for name in {*held, *params} if held.get(name) != params.get(name)}
                found.setdefault(target, set()).update(differ)
        return cls({target: frozenset(names) for target, names in found.items()})

    def name(self, entry: Entry) -> str:
        """`target:row`, and the size where the target has several: `ch07.copy:wide n=64`."""
        return f"{entry.name} {self.label(entry.result.target, entry.result.problem.params)}".rstrip()

    def label(self, target: str, params: Params) -> str:
        """The parameters of a size that tell it apart; empty where the target has one size."""
        names = self.differing.get(target, frozenset())
        return text_of({name: value for name, value in params.items() if name in names})


def text_of(params: Params) -> str:
    """A size with all parameters, by their names: `m=64 n=4,096`."""
    return units.parameters(dict(sorted(params.items())))


def size_of(entry: Entry) -> str | None:
    """The size of a row; None where its workload has no parameters."""
    return text_of(entry.result.problem.params) or None


def analyzed(function: Callable[[Selection, Any], Result], selection: Selection, options: Any) -> Result:
    """The result of an analysis, whose tables and pictures tell rows of several sizes apart."""
    return told_apart(function(selection, options), selection.every)


def told_apart(result: Result, entries: Iterable[Entry]) -> Result:
    """The result with the sizes of its rows. `entries` are rows that it may be made of."""
    entries = list(entries)
    if not Sizes.among(entries).differing:
        return result
    measured = {(one.run.id, one.result.target): one.result.problem.params for one in entries}
    titles, names = Counter(one.title for one in result.drawings), Counter(one.name for one in result.drawings)
    return evolve(
        result,
        tables=[_table(one, measured) for one in result.tables],
        drawings=[_drawing(one, measured, titles[one.title] > 1, names[one.name] > 1) for one in result.drawings],
        left_out=_left_out(result.left_out, measured),
    )


def _table(table: Table, measured: Measured) -> Table:
    """The table with the column of the size, where its records are rows of several sizes."""
    keys = [one.key for one in table.columns]
    if COLUMN.key in keys or not {*keys} & {*NAMING}:
        return table
    sizes = [_shared(one.origins, measured) for one in table.records]
    known = [(origin.target or "", params) for origin, params in filter(None, sizes)]
    differing = Sizes.of(known).differing
    if not differing or all(names <= {one.title for one in table.columns} for names in differing.values()):
        return table  # a column of its own may have the parameter already
    place = 1 + max(keys.index(key) for key in BEHIND if key in keys)
    records = [
        Record({**one.cells, COLUMN.key: text_of(size[1]) or None if size else None}, one.origins)
        for one, size in zip(table.records, sizes, strict=True)
    ]
    return evolve(table, columns=[*table.columns[:place], COLUMN, *table.columns[place:]], records=records)


def _shared(origins: Iterable[Origin], measured: Measured) -> tuple[Origin, Params] | None:
    """The first of some origins with the size that all have in common; None where there is none."""
    known = [one for one in origins if (one.bundle, one.target or "") in measured]
    sizes = [measured[one.bundle, one.target or ""] for one in known]
    return (known[0], sizes[0]) if known and all(one == sizes[0] for one in sizes) else None


def _drawing(drawing: Drawing, measured: Measured, alike: bool, of_one_name: bool) -> Drawing:
    """The picture whose points of several sizes have the size in their names.

    alike: others have its title, so that the title has the size. of_one_name: others have its name.
    """
    origins = [point.origin for one in drawing.series for point in one.points if point.origin is not None]
    sizes = [found for one in origins if (found := _shared([one], measured)) is not None]
    among = Sizes.of((one.target or "", params) for one, params in sizes)
    if alike and sizes and all(params == sizes[0][1] for _, params in sizes):
        size = text_of(sizes[0][1])
        name = f"{drawing.name}-{size.replace(' ', '-')}" if of_one_name else drawing.name
        return evolve(drawing, name=name, title=f"{drawing.title}, {size}")
    if not among.differing:
        return drawing
    return evolve(drawing, series=[evolve(one, points=_points(one, among, measured)) for one in drawing.series])


def _points(series: Series, among: Sizes, measured: Measured) -> list[Point]:
    found = []
    for one in series.points:
        label = _named(one.label, one.origin, among, measured)
        found.append(one if label == one.label else evolve(one, label=label))
    return found


def _named(name: str, origin: Origin | None, among: Sizes, measured: Measured) -> str:
    """A name with its size, where it names a row or a target."""
    if origin is None or origin.target is None or (origin.bundle, origin.target) not in measured:
        return name
    if name not in (origin.target, origin.row, f"{origin.target}:{origin.row}"):
        return name
    return f"{name} {among.label(origin.target, measured[origin.bundle, origin.target])}".rstrip()


def _left_out(some: Sequence[LeftOut], measured: Measured) -> list[LeftOut]:
    known = [found for one in some if one.origin and (found := _shared([one.origin], measured)) is not None]
    among = Sizes.of((origin.target or "", params) for origin, params in known)
    return [evolve(one, what=_named(one.what, one.origin, among, measured)) for one in some]
