"""The sweeps of a run: the results of a target at several values of its parameters, in the order of the values."""

import math
from collections.abc import Iterable, Iterator, Mapping

from attrs import field, frozen

from aiperf_core.measurements import Estimate
from aiperf_core.results.models import SkippedTarget, TargetResult, Verdict
from aiperf_core.sweep import split_point

# The high end of a fraction whose time may be zero.
LARGEST = 1e6
Finished = TargetResult | SkippedTarget


@frozen
class SweepRow:
    """An implementation at a point of a sweep.

    point: the name of the point's result, such as `ch07.memory_access@n=1000000`.
    values: the swept parameters.
    implementation, role: null for a point that was not measured.
    time_s, speedup, speed_of_light: null for a row that is not believed, and for a figure that was not measured.
    speed_of_light: the fraction of the speed of light.
    """

    point: str
    values: dict[str, float]
    verdict: Verdict
    implementation: str | None = None
    role: str | None = None
    reason: str | None = None
    time_s: Estimate | None = None
    speedup: Estimate | None = None
    speed_of_light: Estimate | None = None


@frozen
class Sweep:
    """The points of a target.

    parameters: the swept parameters.
    points: the results with the values of their swept parameters, in ascending order.
    """

    target: str
    parameters: tuple[str, ...]
    points: list[tuple[dict[str, float], Finished]] = field(factory=list)

    @property
    def results(self) -> list[TargetResult]:
        """The points that were measured."""
        return [one for _, one in self.points if isinstance(one, TargetResult)]

    def values(self, parameter: str) -> list[float]:
        """The values of a parameter in ascending order, each once."""
        return sorted({values[parameter] for values, _ in self.points})

    @property
    def rows(self) -> list[SweepRow]:
        """A row for each point and implementation, and one for each point that was not measured. No controls."""
        return [row for values, one in self.points for row in _rows(values, one)]


def sweeps(results: Iterable[Finished]) -> list[Sweep]:
    """The sweeps among the results of a run; none for a run without a sweep."""
    found: dict[tuple[str, tuple[str, ...]], dict[tuple[float, ...], tuple[dict[str, float], Finished]]] = {}
    for result in results:
        target, values = split_point(result.target)
        if values:
            names = tuple(sorted(values))
            found.setdefault((target, names), {})[tuple(values[name] for name in names)] = (values, result)
    return [Sweep(*key, [points[at] for at in sorted(points)]) for key, points in found.items()]


def _rows(values: Mapping[str, float], result: Finished) -> Iterator[SweepRow]:
    if isinstance(result, SkippedTarget):
        yield SweepRow(result.target, dict(values), result.verdict, reason=result.reason)
        return
    for row in result.rows:
        if row.role == "control":
            continue
        light = row.speed_of_light if row.is_believed else None
        yield SweepRow(
            result.target,
            dict(values),
            row.verdict,
            row.name,
            row.role,
            row.reason,
            row.time_s if row.is_believed else None,
            row.speedup,
            _fraction(light.time_s, light.fraction, row.time_s) if light and row.time_s else None,
        )


def _fraction(least_s: float, fraction: float, time_s: Estimate) -> Estimate:
    """A fraction of the speed of light, with the interval of the time. The interval may reach below zero time."""
    high = least_s / time_s.low if time_s.low > 0 else math.inf
    return Estimate(fraction, min(fraction, least_s / time_s.high), max(fraction, min(high, LARGEST)))
