"""What belongs on a roofline: the roofs of a device, and a mark for each implementation that is believed.

A target's place on the horizontal axis is the arithmetic intensity that its cost declares: operations per byte of traffic
that no implementation can avoid. It is the same for all its rows, which therefore stand above each other.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Manifest, Row, TargetResult, Verdict
from aiperf_core.stats.speed_of_light import compute_roof

BELIEVED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.MEASURED)


@frozen
class Roof:
    """A limit. `slope` is bytes per second of memory, `level` operations per second of arithmetic; one of them is set."""

    label: str
    slope: float | None = None
    level: float | None = None


@frozen
class Mark:
    """An implementation: where it stands, and what kind it is: `baseline`, `variant`, `best` or `yardstick`.

    `ceiling` is what light allows it, `fraction` how much of that it reaches; None where the work has no such bound.
    """

    target: str
    name: str
    kind: str
    intensity: float
    flop_per_s: float
    ceiling: float | None
    fraction: float | None


@frozen
class Panel:
    """The roofline of one device. `memory` is the roof of its copies, the others are cache and arithmetic."""

    device: str
    measured: str
    memory: Roof
    others: tuple[Roof, ...]
    marks: tuple[Mark, ...]


@frozen
class Roofline:
    """What is drawn, and what is not with its reason."""

    panels: tuple[Panel, ...]
    left_out: tuple[str, ...]


def roofline(results: Sequence[TargetResult], manifest: Manifest) -> Roofline:
    """Collect the panels, one a device. Raises `AiperfError` where there is nothing to draw."""
    left_out: list[str] = []
    panels = []
    for device in sorted({result.device for result in results}):
        ours = [result for result in results if result.device == device]
        ceilings = manifest.ceilings.get(device)
        if ceilings is None:
            left_out += [f"{one.target}: no ceilings of {device!r} were measured in that run" for one in ours]
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
    rows = []
    for row in result.rows:
        if row.role == "control":  # the baseline once more
            continue
        if row.verdict in BELIEVED and row.time_s is not None:
            rows.append(row)
        else:
            left_out.append(f"{result.target}:{row.name}: {row.verdict.value}")
    best = _best(rows)
    return [
        Mark(
            target=result.target,
            name=row.name,
            kind="best" if row is best else row.role,
            intensity=problem.flops / moved,
            flop_per_s=problem.flops / row.time_s.value,
            ceiling=problem.flops / row.speed_of_light.time_s if row.speed_of_light else None,
            fraction=row.speed_of_light.fraction if row.speed_of_light else None,
        )
        for row in rows
        if row.time_s is not None
    ]


def _best(rows: Iterable[Row]) -> Row | None:
    """The quickest variant."""
    timed = [(row.time_s.value, row) for row in rows if row.role == "variant" and row.time_s is not None]
    return min(timed, key=lambda pair: pair[0])[1] if timed else None


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
