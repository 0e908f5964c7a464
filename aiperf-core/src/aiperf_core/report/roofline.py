"""A roofline as data and as a drawing: the roofs of a device, and a mark for each implementation that is believed.

The horizontal axis is the arithmetic intensity that a target's cost declares: operations per byte of traffic that no
implementation can avoid. All rows of a target have the same intensity, and stand above each other. Marks that all have
one intensity, such as those of one target, are drawn as bars of their bound instead.
"""

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Ceilings
from aiperf_core.report.marks import FIT, colours
from aiperf_core.report.metrics import BOUND_NAMES
from aiperf_core.report.result import Axis, Drawing, Figure, Origin, Point, Series, counted
from aiperf_core.report.svg import SERIES
from aiperf_core.results.models import Manifest, Problem, Row, TargetResult, Verdict
from aiperf_core.stats.best import best_gain
from aiperf_core.stats.speed_of_light import bound_times, compute_roof, cost_of

BELIEVED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.MEASURED)
# Bounds that have no roof in the plane.
LINKS = ("wire", "pcie")
_BOUNDS = {**BOUND_NAMES, "memory": "copy", "wire": "links"}


@frozen
class Roof:
    """A limit: either `slope`, bytes per second of memory, or `level`, operations per second of arithmetic."""

    label: str
    slope: float | None = None
    level: float | None = None


@frozen
class Mark:
    """An implementation.

    kind: `baseline`, `variant`, `best` or `yardstick`.
    colour: the class of its colour in the pictures of its target.
    intensity: operations per byte; None where the work declares no arithmetic or no memory traffic.
    fraction: the fraction of the speed of light, with its interval, in percent; without a value where there is none.
    bound: the resource that bounds it, one of `models.BOUNDS`; empty where there is none.
    needs_links: True where a link bounds it, or may bound it at a rate that was not measured.
    """

    target: str
    name: str
    kind: str
    colour: str
    intensity: float | None
    flop_per_s: float
    fraction: Figure
    bound: str
    needs_links: bool


@frozen
class Panel:
    """The roofline of one device. `memory` is the roof of its copies; the others are cache and arithmetic.

    is_plane: False where the marks have one intensity, and are drawn as bars.
    note: a sentence about rows that have no place in the plane; empty for none.
    """

    device: str
    measured: str
    memory: Roof
    others: tuple[Roof, ...]
    marks: tuple[Mark, ...]
    is_plane: bool
    note: str = ""


@frozen
class Roofline:
    """The panels, and what was left out with its reason."""

    panels: tuple[Panel, ...]
    left_out: tuple[str, ...]


def roofline(results: Sequence[TargetResult], manifest: Manifest) -> Roofline:
    """Collect a panel for each device. Raises `AiperfError` where there is nothing to draw."""
    left_out: list[str] = []
    panels = []
    for device in sorted({result.device for result in results}):
        ours = [result for result in results if result.device == device]
        ceilings = manifest.ceilings.get(device)
        if ceilings is None or not ceilings.copy_bytes_per_s:
            left_out += [f"{result.target}: no ceilings of {device!r} were measured in that run" for result in ours]
            continue
        marks = [mark for result in ours for mark in _marks(result, ceilings, left_out)]
        panels += _panels(ceilings, ours, marks, left_out)
    if not panels:
        why = "; ".join(left_out) or "it holds no results"
        raise AiperfError(f"There is nothing to draw on a roofline: {why}.")
    return Roofline(tuple(panels), tuple(left_out))


def _marks(result: TargetResult, ceilings: Ceilings, left_out: list[str]) -> list[Mark]:
    problem = result.problem
    moved = problem.bytes_read + problem.bytes_written
    timed: list[tuple[float, Row]] = []
    for row in result.rows:
        if row.role == "control":  # the baseline once more
            continue
        if row.verdict in BELIEVED and row.time_s is not None:
            timed.append((row.time_s.value, row))
        else:
            left_out.append(f"{result.target}:{row.name}: {row.verdict.value}")
    best = best_gain(result)
    shared = colours((row.name, row.role) for row in result.rows)
    known = bound_times(cost_of(problem), ceilings, result.cache)
    sent = {"wire": problem.world_size > 1 and problem.wire_bytes, "pcie": _pcie_bytes(problem)}
    unknown = any(amount and link not in known for link, amount in sent.items())
    return [
        Mark(
            target=result.target,
            name=row.name,
            kind="best" if row is best else row.role,
            colour=shared[row.name],
            intensity=problem.flops / moved if problem.flops and moved else None,
            flop_per_s=problem.flops / time_s,
            fraction=_fraction(row),
            bound=row.speed_of_light.bound if row.speed_of_light else "",
            needs_links=unknown or bool(row.speed_of_light and row.speed_of_light.bound in LINKS),
        )
        for time_s, row in timed
    ]


def _pcie_bytes(problem: Problem) -> float:
    return problem.to_device_bytes + problem.from_device_bytes


def _fraction(row: Row) -> Figure:
    """The fraction of the speed of light in percent; its interval is that of the time."""
    light, time = row.speed_of_light, row.time_s
    if light is None or time is None:
        return counted(None, "%", "no bound")
    percent = 100 * light.fraction
    return Figure(
        value=percent,
        low=percent * time.value / time.high,
        high=percent * time.value / time.low,
        unit="%",
        certainty="derived",
    )


def _panels(
    ceilings: Ceilings, results: Sequence[TargetResult], marks: Sequence[Mark], left_out: list[str]
) -> list[Panel]:
    """The plane of the marks that have a place in it, or bars where these have one intensity; none without marks."""
    placed = [mark for mark in marks if mark.intensity is not None and not mark.needs_links]
    if len({mark.intensity for mark in placed}) < 2 and any(mark.bound for mark in marks):
        return [_panel(ceilings, results, marks, is_plane=False)]  # bars need no intensity, and no roof
    for result in results:
        moved = result.problem.bytes_read + result.problem.bytes_written
        if not (result.problem.flops and moved):
            lacking = "no arithmetic" if moved else "no memory traffic"
            left_out.append(f"{result.target}: its cost declares {lacking}, so it has no intensity")
    linked = [mark for mark in marks if mark.needs_links and mark.intensity is not None]
    note = ""
    if linked:
        count = units.plural("implementation", len(linked))
        note = f"{count} bound by links (PCIe, NVLink, between nodes), which have no roof in this plane"
        left_out.append(f"{', '.join(dict.fromkeys(mark.target for mark in linked))}: {note}")
    if not placed:
        return []
    return [evolve(_panel(ceilings, results, placed, is_plane=True), note=note and f"Not drawn: {note}.")]


def _panel(ceilings: Ceilings, results: Sequence[TargetResult], marks: Sequence[Mark], *, is_plane: bool) -> Panel:
    memory = Roof(f"copy {units.rate(ceilings.copy_bytes_per_s, 'B/s')}", slope=ceilings.copy_bytes_per_s)
    others = []
    if ceilings.cache_bytes_per_s and any(result.cache == "warm" for result in results):
        rate = ceilings.cache_bytes_per_s
        others.append(Roof(f"last-level cache {units.rate(rate, 'B/s')}", slope=rate))
    drawn = {mark.target for mark in marks}
    for precision in dict.fromkeys(result.problem.precision for result in results if result.target in drawn):
        level = compute_roof(ceilings, precision)
        if level is not None:
            kind = "matmul" if level == ceilings.flop_per_s.get(precision) else "FMA"
            others.append(Roof(f"{precision} {kind} {units.rate(level, 'FLOP/s')}", level=level))
    return Panel(ceilings.device, ceilings.measured, memory, tuple(others), tuple(marks), is_plane)


# --- drawing


def draw(panel: Panel, title: str = "", origins: Mapping[tuple[str, str], Origin] | None = None) -> Drawing:
    """The drawing of a device's roofline. `origins` are those of the marks, by target and name."""
    where = f"{panel.device}, ceilings of {panel.measured[:10]}"
    best = max(panel.marks, key=lambda mark: mark.fraction.value or 0.0)
    nearest = f"{best.target}:{best.name} is nearest to its bound, at {_percent(best)}"
    nearest = f"{nearest if best.fraction.value else 'no row has a bound'}; {where}."
    if not panel.is_plane:
        return _bars(panel, title, where, nearest, origins or {})
    roofs = _roofs(panel)
    rates = [mark.flop_per_s for mark in panel.marks]
    rates += [point.y.value for roof in roofs for point in roof.points if point.y.value is not None]
    return Drawing(
        name=f"roofline-{panel.device}",
        title=f"{title} on {where}" if title else where,
        kind="scatter",
        message=f"{nearest} {panel.note}".rstrip(),
        x=Axis(title="arithmetic intensity, FLOP/byte", unit="number", log=True),
        y=Axis(title="rate, higher is better", unit="FLOP/s", log=True, ends=(min(rates) / 3, 3 * max(rates))),
        series=[*roofs, *_in_plane(panel, origins or {})],
    )


def _percent(mark: Mark) -> str:
    return units.percent((mark.fraction.value or 0.0) / 100)


def _in_plane(panel: Panel, origins: Mapping[tuple[str, str], Origin]) -> list[Series]:
    """A series for each target, in a colour of its own. Its best mark has its name beside it, the others a number."""
    series = []
    number = 0
    for at, target in enumerate(dict.fromkeys(mark.target for mark in panel.marks)):
        marks = [mark for mark in panel.marks if mark.target == target]
        named = max(marks, key=lambda mark: (mark.kind == "best", mark.flop_per_s))
        points = []
        for mark in marks:
            number += mark is not named
            fraction = f" {_percent(mark)}" if mark.bound else ""
            points.append(
                Point(
                    label=f"{target.rpartition('.')[2]}:{mark.name}{fraction}",
                    x=counted(mark.intensity, "number"),
                    y=counted(mark.flop_per_s, "FLOP/s"),
                    mark=mark.kind,
                    origin=origins.get((target, mark.name)),
                    colour=SERIES[at % len(SERIES)],
                    short="" if mark is named else str(number),
                )
            )
        series.append(Series(name=target, points=points))
    return series


def _bars(panel: Panel, title: str, where: str, message: str, origins: Mapping[tuple[str, str], Origin]) -> Drawing:
    """A bar for each mark: the fraction of its speed of light."""
    targets = list(dict.fromkeys(mark.target for mark in panel.marks))
    bounds = list(dict.fromkeys(mark.bound for mark in panel.marks if mark.bound))
    steps = _steps(panel.marks) if len(targets) == 1 and len(bounds) == 1 else ""
    head = ": ".join(part for part in (title, steps and f"{steps} of {_BOUNDS.get(bounds[0], bounds[0])}") if part)
    fractions = [mark.fraction.high for mark in panel.marks if mark.fraction.high is not None]
    series = []
    for target in targets:
        points = [
            Point(
                label=f"{mark.name}, {_BOUNDS.get(mark.bound, mark.bound)}"
                if len(bounds) > 1 and mark.bound
                else mark.name,
                x=mark.fraction,
                y=counted(float(index), "count"),
                mark=mark.kind if mark.kind in ("best", "yardstick", "baseline") else "",
                origin=origins.get((target, mark.name)),
                colour=mark.colour,
            )
            for index, mark in enumerate(mark for mark in panel.marks if mark.target == target)
        ]
        series.append(Series(name=target, points=points))
    return Drawing(
        name=f"bound-{panel.device}",
        title=f"{head} on {where}" if head else where,
        kind="bars",
        message=f"{steps} of {_BOUNDS.get(bounds[0], bounds[0])}: {message}" if steps else message,
        x=Axis(title="fraction of the speed of light", unit="%", ends=(0.0, max(100.0, *fractions))),
        y=Axis(title="implementation", unit="count"),
        series=series,
    )


def _steps(marks: Sequence[Mark]) -> str:
    """The fractions of the baseline and of each variant above all before it: `58 → 69 → 83 %`."""
    steps: list[Mark] = []
    for mark in marks:
        value = mark.fraction.value
        if value is not None and mark.kind != "yardstick" and (not steps or value > (steps[-1].fraction.value or 0.0)):
            steps.append(mark)
    return f"{' → '.join(_percent(mark).removesuffix(' %') for mark in steps)} %" if steps else ""


def _roofs(panel: Panel) -> list[Series]:
    """The roofs as lines over the intensities of the marks and of the corners."""
    roofs = (panel.memory, *panel.others)
    levels = [roof.level for roof in roofs if roof.level]
    slopes = [roof.slope for roof in roofs if roof.slope]
    places = [mark.intensity for mark in panel.marks if mark.intensity]
    low = min(places) / 30  # room for the name of a slope
    high = 20 * max([*places, *(level / slope for level in levels for slope in slopes)])
    top = max([*levels, *(mark.flop_per_s for mark in panel.marks)])
    series = []
    for roof in roofs:
        if roof.slope:
            end = min(high, top / roof.slope)
            ends = [(low, low * roof.slope), (end, end * roof.slope)]
        else:
            level = roof.level or top
            ends = [(max(low, level / max(slopes)), level), (high, level)]
        colour = "second" if roof.slope and roof is not panel.memory else "roof"
        points = [
            Point(label=label, x=counted(x, "number"), y=counted(y, "FLOP/s"), mark=FIT, colour=colour)
            for label, (x, y) in zip((roof.label, "") if roof.slope else ("", roof.label), ends, strict=True)
        ]
        series.append(Series(name="", points=points, joined=True))
    return series
