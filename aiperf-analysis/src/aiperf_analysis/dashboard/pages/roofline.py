"""The newest results on the rooflines of their machines."""

from attrs import evolve

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.selection import Entry, Selection
from aiperf_analysis.sizes import Sizes, told_apart
from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.report import roofline as rooflines
from aiperf_core.report.result import Column, Drawing, LeftOut, Origin, Record, Result, Table, counted
from aiperf_core.report.roofline import Mark


def page(asked: Asked) -> View:
    """The rooflines of what the filters select."""
    api = filters.with_query("/api/v1/roofline", asked.filters.query)
    try:
        name = ("roofline", repr(asked.filters))
        result = asked.site.kept(name, lambda: of_selection(asked))
    except AiperfError as error:
        return document.view(asked, None, api=api, problem=str(error))
    latest = asked.site.source.selection(asked.filters).latest()
    command = ["roofline", latest.runs[0].path, "--out", "roofline.svg"]
    return document.view(asked, result, api=api, command=command)


def of_selection(asked: Asked) -> Result:
    """A roofline or bars for each kind of machine. Raises AiperfError where there is nothing to draw."""
    latest = asked.site.source.selection(asked.filters).latest()
    drawn: list[Drawing] = []
    records: list[Record] = []
    left_out: list[LeftOut] = []
    problems: list[str] = []
    sizes = Sizes.among(latest.every)
    for (hardware, _), entries in _groups(latest).items():
        # A mark is known by the names of its target and its row: several sizes of a target are several targets here.
        named = {id(one.result): evolve(one.result, target=_target(one, sizes)) for one in entries}
        origins = {(named[id(one.result)].target, one.row.name): one.origin for one in entries}
        results = list(named.values())
        newest = max((one.run for one in entries), key=lambda run: run.created)
        try:
            collected = rooflines.roofline(results, newest.manifest)
        except AiperfError as error:
            problems.append(f"{hardware}: {error}")
            continue
        drawn += [rooflines.draw(panel, f"Roofline of {hardware}", origins) for panel in collected.panels]
        records += [_record(hardware, mark, origins) for panel in collected.panels for mark in panel.marks]
        left_out += [LeftOut(f"{hardware}", "", text) for text in collected.left_out]
    if not drawn:
        raise AiperfError("; ".join(problems) or "there are no results, so there is nothing to draw on a roofline.")
    result = Result(
        analysis="roofline",
        title=f"{units.plural('implementation', len(records))} on {units.plural('roofline', len(drawn))}",
        summary=[one.message for one in drawn],
        tables=[Table("marks", "Implementations", _COLUMNS, records)],
        drawings=drawn,
        assumptions=[
            "The horizontal axis is the arithmetic intensity: operations for each byte that the work must move.",
            "The roofs are what the machine reached when its ceilings were measured in the newest of these runs.",
        ],
        left_out=left_out,
        sources=latest.sources,
    )
    return told_apart(result, latest.every)


_COLUMNS = [
    Column("row", "implementation"),
    Column("target", "target"),
    Column("class", "machine"),
    Column("intensity", "FLOP per byte", "figure"),
    Column("rate", "rate", "figure"),
    Column("fraction", "of the speed of light", "figure"),
]


def _target(one: Entry, sizes: Sizes) -> str:
    return f"{one.result.target} {sizes.label(one.result.target, one.result.problem.params)}".rstrip()


def _groups(latest: Selection) -> dict[tuple[str, str], list[Entry]]:
    found: dict[tuple[str, str], list[Entry]] = {}
    for one in latest.every:
        found.setdefault((one.hardware, one.result.device), []).append(one)
    return found


def _record(hardware: str, mark: Mark, origins: dict[tuple[str, str], Origin]) -> Record:
    return Record(
        {
            "row": mark.name,
            "target": origins[mark.target, mark.name].target,
            "class": hardware,
            "intensity": counted(mark.intensity, "number", "no arithmetic, or no memory traffic"),
            "rate": counted(mark.flop_per_s or None, "FLOP/s", "no arithmetic"),
            "fraction": mark.fraction,
        },
        [origins[mark.target, mark.name]],
    )
