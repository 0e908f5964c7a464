"""Figures of goals: what an implementation reached of the figure that its target is to reach.

A figure has the interval of the row's time. A ratio of two times has the interval of their paired contrast, since both
drift together; without samples of both it has the widest interval that the two times allow.
"""

from collections.abc import Callable, Mapping

from attrs import frozen

from aiperf_core import units
from aiperf_core.goal import Goal
from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.results.models import Problem, Row, TargetResult
from aiperf_core.stats.best import best_of
from aiperf_core.stats.intervals import ratio_interval
from aiperf_core.stats.observations import blocks
from aiperf_core.stats.speed_of_light import disk_times

_BYTES = ("bytes_read", "bytes_written")
_NO_CEILING = "its run has no ceiling {}; on that machine run aiperf ceilings first, then run the target again"
# By the kind of a goal the parts of the cost that it counts, and the ceiling that it is held to.
_RATES: dict[str, tuple[tuple[str, ...], Callable[[Ceilings, Goal, Problem], float | None]]] = {
    "BW": (_BYTES, lambda of, goal, problem: of.copy_bytes_per_s),
    "RBW": (("bytes_read",), lambda of, goal, problem: of.read_bytes_per_s),
    "WBW": (("bytes_written",), lambda of, goal, problem: of.write_bytes_per_s),
    "MM": (("flops",), lambda of, goal, problem: of.flop_per_s.get(goal.precision)),
    "FMA": (("flops",), lambda of, goal, problem: of.vector_flop_per_s.get(goal.precision)),
    "FMA3": (("flops",), lambda of, goal, problem: of.multiply_add_flop_per_s.get(goal.precision)),
    "SMBW": (("shared_bytes",), lambda of, goal, problem: of.shared_bytes_per_s),
    "CACHE": (_BYTES, lambda of, goal, problem: of.cache_bytes_per_s),
    "LAT": ((), lambda of, goal, problem: of.launch_wait_s),
    "GRAPH": ((), lambda of, goal, problem: of.graph_launch_s),
    "P2P": (("wire_bytes",), lambda of, goal, problem: _between_gpus(of)),
    "ALLREDUCE": (("wire_bytes",), lambda of, goal, problem: of.all_reduce_bytes_per_s.get(str(problem.world_size))),
    "PCI": (("to_device_bytes",), lambda of, goal, problem: of.transfer_bytes_per_s.get("pinned_to_device")),
}


class NoFigureError(Exception):
    """A result does not have the figure of a goal; the message says why."""


@frozen
class Reached:
    """The figure of a goal, and the implementation that it is of."""

    implementation: str
    figure: Estimate


def figure_of(goal: Goal, sizes: Mapping[str, float], result: TargetResult, ceilings: Ceilings | None) -> Reached:
    """The figure of a goal.

    sizes: those that the goal is about.
    ceilings: the device's ceilings in the result's run; None where there are none.

    Raises `NoFigureError` that says why the result has no such figure.
    """
    if result.device != goal.device:
        raise NoFigureError(f"the run was on {result.device}; this goal is for {goal.device}")
    if result.problem.params != sizes:
        raise NoFigureError(f"measured at other sizes ({_sizes(result.problem.params)})")
    if not result.complete:
        raise NoFigureError("the run was interrupted")
    row = _row(result, goal.implementation) if goal.implementation else _best(result, goal)
    return Reached(row.name, _figure(goal, row, result, ceilings))


def _sizes(params: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={units.parameter(value)}" for name, value in params.items())


# --- rows


def _row(result: TargetResult, name: str) -> Row:
    """The row of a name, which is believed and has a time."""
    row = next((row for row in result.rows if row.name == name), None)
    if row is None:
        raise NoFigureError(f"{name} was not measured")
    if not row.is_believed:
        why = f"did not run: {row.reason}" if row.is_skipped else f"is {row.verdict.value}, which is not believed"
        raise NoFigureError(f"{name} {why}")
    if row.time_s is None:
        raise NoFigureError(f"{name} has too few samples for an interval")
    return row


def _best(result: TargetResult, goal: Goal) -> Row:
    """The best variant that has a time: by memory for a goal on memory, else by time."""
    variants = [row for row in result.rows if row.role == "variant"]
    best = best_of((row for row in variants if row.time_s is not None), "memory" if goal.kind == "memory" else "speed")
    if best is None:
        verdicts = ", ".join(f"{row.name} {row.verdict.value}" for row in variants) or "none was measured"
        raise NoFigureError(f"no variant is believed ({verdicts})")
    return best


def _time(row: Row) -> Estimate:
    assert row.time_s is not None  # as `_row` and `_best` return them
    return row.time_s


def _peak_bytes(row: Row) -> int:
    peak = row.memory.most_bytes if row.memory else None
    if not peak:
        raise NoFigureError(f"the peak memory of {row.name} was not measured")
    return peak


# --- figures


def _figure(goal: Goal, row: Row, result: TargetResult, ceilings: Ceilings | None) -> Estimate:
    """The figure of a goal for a row that is believed."""
    match goal.kind:
        case "speedup":
            if row.role == "baseline":
                raise NoFigureError(f"{row.name} is the baseline, which has no speedup")
            return row.speedup or _ratio(result, _baseline(result), row, ceilings)
        case "time":
            # A time divided by the longest of several is the least of its ratios to each.
            ratios = [_ratio(result, row, _row(result, other), ceilings) for other in goal.others]
            return Estimate(*(min(getattr(ratio, end) for ratio in ratios) for end in ("value", "low", "high")))
        case "memory":
            ratio = _peak_bytes(row) / _peak_bytes(_row(result, goal.others[0]))
            return Estimate(ratio, ratio, ratio)
        case "SOL":
            if row.speed_of_light is None:
                raise NoFigureError(f"{row.name} has no speed of light; its run lacks the ceilings: aiperf ceilings")
            return _inverse(row.speed_of_light.time_s, _time(row))
        case "LAT" | "GRAPH":
            unit, time = goal.launches * _ceiling(goal, result.problem, ceilings), _time(row)
            return Estimate(time.value / unit, time.low / unit, time.high / unit)
        case "DISK":
            return _inverse(_disk_s(result.problem, ceilings), _time(row))
        case _:
            parts = _RATES[goal.kind][0]
            amount = sum(getattr(result.problem, part) for part in parts)
            if not amount:
                raise NoFigureError(f"its cost declares no {' and no '.join(parts)}")
            return _inverse(amount / _ceiling(goal, result.problem, ceilings), _time(row))


def _baseline(result: TargetResult) -> Row:
    return _row(result, next((row.name for row in result.rows if row.role == "baseline"), "the baseline"))


def _inverse(least_s: float, time: Estimate) -> Estimate:
    """A least time as a share of a time."""
    return Estimate(least_s / time.value, least_s / time.high, least_s / time.low)


def _ratio(result: TargetResult, top: Row, bottom: Row, ceilings: Ceilings | None) -> Estimate:
    """The time of a row divided by that of another."""
    paired = ratio_interval(blocks(result, top, ceilings), blocks(result, bottom, ceilings))
    if paired is not None:
        return paired
    one, other = _time(top), _time(bottom)
    return Estimate(one.value / other.value, one.low / other.high, one.high / other.low)


def _disk_s(problem: Problem, ceilings: Ceilings | None) -> float:
    """The least time on the disk in seconds."""
    times = disk_times(problem.disk_read_bytes, problem.disk_written_bytes, ceilings)
    if not times:
        raise NoFigureError("its cost declares no disk_read_bytes and no disk_written_bytes")
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        raise NoFigureError(_NO_CEILING.format("DISK"))
    return max(known)


def _ceiling(goal: Goal, problem: Problem, ceilings: Ceilings | None) -> float:
    """The ceiling of a goal, which is above 0."""
    found = _RATES[goal.kind][1](ceilings, goal, problem) if ceilings else None
    if not found:
        raise NoFigureError(_NO_CEILING.format(goal.of))
    return found


def _between_gpus(ceilings: Ceilings) -> float | None:
    """The rate of the slowest copy between two GPUs."""
    rates = (rate for pair, rate in ceilings.peer_bytes_per_s.items() if not pair.endswith("-all"))
    return min(rates, default=None)
