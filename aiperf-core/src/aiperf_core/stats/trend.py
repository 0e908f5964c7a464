"""The times of an implementation over runs, in the order of the commits that were measured."""

from collections.abc import Iterable
from datetime import datetime

from attrs import frozen

from aiperf_core.measurements import Estimate
from aiperf_core.results.hardware import hardware_key
from aiperf_core.results.listing import Run, moment
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.stats.compare import independent_ratio
from aiperf_core.stats.intervals import verdict


@frozen
class Point:
    """An implementation in one run.

    commit, commit_time: the commit that was measured and when it was made; None outside of a repository.
    verdict: the row's verdict in its own run.
    time_s: the median with its interval; None for a row that is not believed or has too few samples.
    ratio: the time of the last point before that has one, divided by this time. The two runs were not paired.
    change: what `ratio` allows to say: FASTER, SLOWER, SAME or INCONCLUSIVE.
    """

    run: Run
    created: str
    commit: str | None
    commit_time: str | None
    verdict: Verdict
    time_s: Estimate | None
    ratio: Estimate | None
    change: Verdict | None


@frozen
class Trend:
    """Points that may be compared: one implementation, one kind of hardware, the same work, timed in the same way.

    hardware: the kind of machine, such as `nvidia-h200-x1`.
    points: in the order of their commits, and of their runs where they have no commit or the same.
    """

    target: str
    implementation: str
    device: str
    hardware: str
    params: dict[str, float]
    clock: str
    cache: str
    precision: str
    points: list[Point]


def trends(runs: Iterable[Run], target: str, implementation: str | None = None) -> list[Trend]:
    """The trends of a target, by implementation and hardware. Raises BundleError for an unreadable result."""
    series: dict[tuple[object, ...], list[tuple[Run, TargetResult, Row]]] = {}
    for run in sorted(runs, key=_order):
        if target not in run.targets:
            continue
        result = run.bundle.outline(target)
        problem = result.problem
        hardware = hardware_key(run.manifest.machine, result.device, problem.params)
        params = tuple(sorted(problem.params.items()))
        for row in result.rows:
            if row.role != "control" and implementation in (None, row.name):
                key = (row.name, hardware, result.device, params, result.clock, result.cache, problem.precision)
                series.setdefault(key, []).append((run, result, row))
    return [_trend(str(key[1]), series[key]) for key in sorted(series)]


def _order(run: Run) -> tuple[datetime, datetime]:
    try:
        return moment(run.manifest.commit_time or ""), run.created
    except ValueError:
        return run.created, run.created


def _trend(hardware: str, found: list[tuple[Run, TargetResult, Row]]) -> Trend:
    _, result, first = found[0]
    points: list[Point] = []
    before: Estimate | None = None
    for run, measured, row in found:
        time_s = row.time_s if row.is_believed else None
        ratio = independent_ratio(before, time_s) if before and time_s else None
        change = verdict(ratio, measured.floor) if ratio else None
        manifest = run.manifest
        points.append(
            Point(run, manifest.created, manifest.git, manifest.commit_time, row.verdict, time_s, ratio, change)
        )
        before = time_s or before
    problem = result.problem
    return Trend(
        result.target,
        first.name,
        result.device,
        hardware,
        problem.params,
        result.clock,
        result.cache,
        problem.precision,
        points,
    )
