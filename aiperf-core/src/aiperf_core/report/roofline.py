"""A roofline as data and as a drawing: the roofs of a device, and a mark for each implementation that is believed.

The horizontal axis is the arithmetic intensity that a target's cost declares: operations per byte of traffic that no
implementation can avoid. All rows of a target have the same intensity, and stand above each other.
"""

from collections.abc import Mapping, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Ceilings
from aiperf_core.report.marks import FIT, colours
from aiperf_core.report.result import Axis, Drawing, Origin, Point, Series, counted
from aiperf_core.report.svg import SERIES
from aiperf_core.results.models import Manifest, Row, TargetResult, Verdict
from aiperf_core.stats.best import best_variant
from aiperf_core.stats.speed_of_light import compute_roof

BELIEVED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.MEASURED)
NAMED = 24  # marks of a picture; of more, the best of each target have names alone


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
    ceiling: the rate at the speed of light; None where the work has no such bound.
    fraction: the fraction of that rate which the implementation reaches.
    """

    target: str
    name: str
    kind: str
    colour: str
    intensity: float
    flop_per_s: float
    ceiling: float | None
    fraction: float | None


@frozen
class Panel:
    """The roofline of one device. `memory` is the roof of its copies; the others are cache and arithmetic."""

    device: str
    measured: str
    memory: Roof
    others: tuple[Roof, ...]
    marks: tuple[Mark, ...]


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
        marks = [mark for result in ours for mark in _marks(result, left_out)]
        if marks:
            panels.append(_panel(ceilings, ours, marks))
    if not panels:
        why = "; ".join(left_out) or "it holds no results"
        raise AiperfError(f"There is nothing to draw on a roofline: {why}.")
    return Roofline(tuple(panels), tuple(left_out))


def _marks(result: TargetResult, left_out: list[str]) -> list[Mark]:
    problem = result.problem
    moved = problem.bytes_read + problem.bytes_written
    if not (problem.flops and moved):
        lacking = "no arithmetic" if moved else "no memory traffic"
        left_out.append(f"{result.target}: its cost declares {lacking}, so it has no intensity")
        return []
    timed: list[tuple[float, Row]] = []
    for row in result.rows:
        if row.role == "control":  # the baseline once more
            continue
        if row.verdict in BELIEVED and row.time_s is not None:
            timed.append((row.time_s.value, row))
        else:
            left_out.append(f"{result.target}:{row.name}: {row.verdict.value}")
    best = best_variant(result)
    shared = colours((row.name, row.role) for row in result.rows)
    return [
        Mark(
            target=result.target,
            name=row.name,
            kind="best" if row is best else row.role,
            colour=shared[row.name],
            intensity=problem.flops / moved,
            flop_per_s=problem.flops / time_s,
            ceiling=problem.flops / row.speed_of_light.time_s if row.speed_of_light else None,
            fraction=row.speed_of_light.fraction if row.speed_of_light else None,
        )
        for time_s, row in timed
    ]


def _panel(ceilings: Ceilings, results: Sequence[TargetResult], marks: Sequence[Mark]) -> Panel:
    memory = Roof(f"copy {units.rate(ceilings.copy_bytes_per_s, 'B/s')}", slope=ceilings.copy_bytes_per_s)
    others = []
    if ceilings.cache_bytes_per_s and any(result.cache == "warm" for result in results):
        rate = ceilings.cache_bytes_per_s
        others.append(Roof(f"last-level cache {units.rate(rate, 'B/s')}", slope=rate))
    drawn = {mark.target for mark in marks}
    for precision in dict.fromkeys(result.problem.precision for result in results if result.target in drawn):
        level = compute_roof(ceilings, precision)
        if level is not None:
            others.append(Roof(f"{precision} {units.rate(level, 'FLOP/s')}", level=level))
    return Panel(ceilings.device, ceilings.measured, memory, tuple(others), tuple(marks))


# --- drawing


def draw(panel: Panel, title: str = "", origins: Mapping[tuple[str, str], Origin] | None = None) -> Drawing:
    """The drawing of a device's roofline. `origins` are those of the marks, by target and name."""
    where = f"{panel.device}, ceilings of {panel.measured[:10]}"
    targets = list(dict.fromkeys(mark.target for mark in panel.marks))
    roofs = _roofs(panel)
    rates = [mark.flop_per_s for mark in panel.marks]
    rates += [point.y.value for roof in roofs for point in roof.points if point.y.value is not None]
    best = max(panel.marks, key=lambda mark: mark.fraction or 0.0)
    nearest = f"{best.target}:{best.name} is nearest to its bound, at {units.percent(best.fraction or 0.0)}"
    return Drawing(
        name=f"roofline-{panel.device}",
        title=f"{title} on {where}" if title else where,
        kind="scatter",
        message=f"{nearest if best.fraction else 'no row has a bound'}; {where}.",
        x=Axis(title="arithmetic intensity, FLOP/byte", unit="number", log=True),
        y=Axis(title="rate, higher is better", unit="FLOP/s", log=True, ends=(min(rates) / 3, 3 * max(rates))),
        series=[*roofs, *(_of_target(panel, at, target, origins or {}) for at, target in enumerate(targets))],
    )


def _of_target(panel: Panel, at: int, target: str, origins: Mapping[tuple[str, str], Origin]) -> Series:
    """The marks of a target; in the colour of the target where there are several."""
    several = len({mark.target for mark in panel.marks}) > 1
    many = len(panel.marks) > NAMED
    points = []
    for mark in panel.marks:
        if mark.target != target:
            continue
        fraction = "" if mark.fraction is None else f" {units.percent(mark.fraction)}"
        name = f"{target.rpartition('.')[2]}:{mark.name}" if many else mark.name
        points.append(
            Point(
                label=f"{name}{fraction}" if mark.kind == "best" or not many else "",
                x=counted(mark.intensity, "number"),
                y=counted(mark.flop_per_s, "FLOP/s"),
                mark=mark.kind,
                origin=origins.get((target, mark.name)),
                colour=SERIES[at % len(SERIES)] if several else mark.colour,
            )
        )
    return Series(name=target, points=points)


def _roofs(panel: Panel) -> list[Series]:
    """The roofs as lines over the intensities of the marks and of the corners."""
    roofs = (panel.memory, *panel.others)
    levels = [roof.level for roof in roofs if roof.level]
    slopes = [roof.slope for roof in roofs if roof.slope]
    places = [mark.intensity for mark in panel.marks]
    low = min(places) / 10
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
