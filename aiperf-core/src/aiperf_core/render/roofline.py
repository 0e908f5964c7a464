"""The content of a roofline: the roofs of a device, and a mark for each implementation that is believed.

The horizontal axis is the arithmetic intensity that a target's cost declares: operations per byte of traffic that no
implementation can avoid. All rows of a target have the same intensity, and stand above each other.
"""

from collections.abc import Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Ceilings
from aiperf_core.render import marks
from aiperf_core.results.models import Manifest, Row, TargetResult, Verdict
from aiperf_core.stats.best import best_variant
from aiperf_core.stats.speed_of_light import compute_roof

BELIEVED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.MEASURED)


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
        found = [mark for result in ours for mark in _marks(result, left_out)]
        if found:
            panels.append(_panel(ceilings, ours, found))
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
    colours = marks.colours((row.name, row.role) for row in result.rows)
    return [
        Mark(
            target=result.target,
            name=row.name,
            kind="best" if row is best else row.role,
            colour=colours[row.name],
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
    if ceilings.cache_bytes_per_s and any(one.cache == "warm" for one in results):
        rate = ceilings.cache_bytes_per_s
        others.append(Roof(f"last-level cache {units.rate(rate, 'B/s')}", slope=rate))
    drawn = {mark.target for mark in marks}
    for precision in dict.fromkeys(one.problem.precision for one in results if one.target in drawn):
        level = compute_roof(ceilings, precision)
        if level is not None:
            others.append(Roof(f"{precision} {units.rate(level, 'FLOP/s')}", level=level))
    return Panel(ceilings.device, ceilings.measured, memory, tuple(others), tuple(marks))
