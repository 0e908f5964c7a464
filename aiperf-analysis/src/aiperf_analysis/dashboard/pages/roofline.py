"""The newest results on the rooflines of their machines."""

import functools
from collections.abc import Sequence

from attrs import evolve, frozen

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.selection import Entry, Selection
from aiperf_analysis.sizes import Sizes, told_apart
from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.render import layout, roofline_plot
from aiperf_core.render.roofline import Mark, Panel, Roof
from aiperf_core.render.roofline import roofline as collect
from aiperf_core.render.svg import Picture
from aiperf_core.report.result import (
    Axis,
    Column,
    Drawing,
    LeftOut,
    Origin,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
)


def page(asked: Asked) -> View:
    """The rooflines of what the filters select."""
    api = filters.with_query("/api/v1/roofline", asked.filters.query)
    try:
        name = ("roofline", repr(asked.filters))
        result, drawn = asked.site.kept(name, lambda: _drawn(asked))
    except AiperfError as error:
        return document.view(asked, None, api=api, problem=str(error))
    latest = asked.site.source.selection(asked.filters).latest()
    command = ["roofline", latest.runs[0].path, "--out", "roofline.svg"]
    return document.view(asked, result, api=api, command=command, pictures=drawn)


def _drawn(asked: Asked) -> tuple[Result, list[shown.ShownPicture]]:
    """The result with its pictures. Placing names takes long, so pages keep it."""
    result, panels = _found(asked)
    return result, [
        evolve(one, drawn=layout.both(functools.partial(_picture, panel, one.title)))
        for one, panel in zip(shown.pictures(result), panels, strict=True)
    ]


def _picture(found: "_Found", title: str, wide: float) -> Picture:
    """The roofline of a kind of machine; each mark leads to its raw samples."""
    return roofline_plot.draw(
        [found.panel], title, wide, lambda mark: shown.address_of(found.origins[mark.target, mark.name])
    )


@frozen
class _Found:
    """A roofline, and where each of its marks comes from."""

    panel: Panel
    origins: dict[tuple[str, str], Origin]


def of_selection(asked: Asked) -> Result:
    """A roofline for each kind of machine. Raises AiperfError where there is nothing to draw."""
    return _found(asked)[0]


def _found(asked: Asked) -> tuple[Result, list[_Found]]:
    """The result, and a roofline for each of its drawings."""
    latest = asked.site.source.selection(asked.filters).latest()
    drawn: list[Drawing] = []
    panels: list[_Found] = []
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
            found = collect(results, newest.manifest)
        except AiperfError as error:
            problems.append(f"{hardware}: {error}")
            continue
        drawn += [_drawing(hardware, panel, origins) for panel in found.panels]
        panels += [_Found(panel, origins) for panel in found.panels]
        records += [_record(hardware, mark, origins) for panel in found.panels for mark in panel.marks]
        left_out += [LeftOut(f"{hardware}", "", text) for text in found.left_out]
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
    return told_apart(result, latest.every), panels


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
            "intensity": counted(mark.intensity, "number"),
            "rate": counted(mark.flop_per_s, "FLOP/s"),
            "fraction": counted(
                mark.fraction * 100 if mark.fraction is not None else None, "%", "its work has no such bound"
            ),
        },
        [origins[mark.target, mark.name]],
    )


def _drawing(hardware: str, panel: Panel, origins: dict[tuple[str, str], Origin]) -> Drawing:
    best = max(panel.marks, key=lambda mark: mark.fraction or 0.0)
    reached = f"{best.target}:{best.name} is nearest to its bound, at {(best.fraction or 0) * 100:.0f} %"
    by_target: dict[str, list[Mark]] = {}
    for mark in panel.marks:
        by_target.setdefault(mark.target, []).append(mark)
    series = [
        Series(
            name=target,
            points=[
                Point(
                    label=mark.name if mark.kind == "best" else "",
                    x=counted(mark.intensity, "number"),
                    y=counted(mark.flop_per_s, "FLOP/s"),
                    mark="" if mark.kind == "best" else "undecided" if mark.kind == "baseline" else "",
                    origin=origins[mark.target, mark.name],
                )
                for mark in marks
            ],
        )
        for target, marks in by_target.items()
    ]
    return Drawing(
        name=f"roofline-{hardware}",
        title=f"Roofline of {hardware}: {panel.device}",
        kind="scatter",
        message=f"{reached} on {hardware}." if best.fraction else f"No row of {hardware} has a bound.",
        x=Axis(title="arithmetic intensity, FLOP per byte", unit="number", log=True),
        y=Axis(title="rate (higher is better)", unit="FLOP/s", log=True),
        series=[*_roofs(panel), *series],
    )


def _roofs(panel: Panel) -> list[Series]:
    """The roofs as lines over the intensities of the marks and the ridges."""
    levels = [roof.level for roof in panel.others if roof.level]
    slopes = [roof.slope for roof in (panel.memory, *panel.others) if roof.slope]
    ridges = [level / slope for level in levels for slope in slopes]
    places = [*(mark.intensity for mark in panel.marks), *ridges]
    low, high = min(places) / 2, max(places) * 2
    top = max([*levels, *(mark.flop_per_s for mark in panel.marks)])
    return [_roof(roof, low, high, top) for roof in (panel.memory, *panel.others)]


def _roof(roof: Roof, low: float, high: float, top: float) -> Series:
    if roof.slope:
        ends: Sequence[tuple[float, float]] = [
            (low, low * roof.slope),
            (end := min(high, top / roof.slope), end * roof.slope),
        ]
    else:
        ends = [(low, roof.level or top), (high, roof.level or top)]
    points = [Point(label="", x=counted(x, "number"), y=counted(y, "FLOP/s"), mark="fit") for x, y in ends]
    return Series(name=roof.label, points=points, joined=True)
