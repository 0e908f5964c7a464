"""Speed of light: the least time that a cost and a machine's ceilings allow."""

import math
from typing import Any

from attrs import evolve

from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Problem, Row, SpeedOfLight, TargetResult

# A ceiling is itself measured, so a result may lie a little above it.
BEYOND = 1.02


def compute_roof(ceilings: Ceilings, precision: str) -> float | None:
    """The most operations per second in a precision, by matrix products or by multiply-adds; None without a figure."""
    found = (ceilings.flop_per_s.get(precision), ceilings.vector_flop_per_s.get(precision))
    return max((rate for rate in found if rate), default=None)


def least_time(cost: dict[str, Any], ceilings: Ceilings, cache: str) -> tuple[str, float] | None:
    """Return the bound (`memory` or `compute`) and the least time in seconds; None without a ceiling.

    Reads and writes that balance move at the rate of a copy, the rest at that of a pure read or write. The bytes of a
    warm workload bound it only as far as they exceed the cache. Where the size of the cache is not known, arithmetic
    alone does.
    """
    times = {}
    rate = compute_roof(ceilings, cost["precision"])
    if cost["flops"] and rate:
        times["compute"] = cost["flops"] / rate
    held = 0 if cache == "cold" else ceilings.cache_bytes or math.inf
    read, written = (max(0, cost[name] - held) for name in ("bytes_read", "bytes_written"))
    if read + written:
        both = min(read, written)
        times["memory"] = (
            2 * both / ceilings.copy_bytes_per_s
            + (read - both) / ceilings.read_bytes_per_s
            + (written - both) / ceilings.write_bytes_per_s
        )
    if not times:
        return None
    bound = max(times, key=lambda name: times[name])
    return bound, times[bound]


def speed_of_light(cost: dict[str, Any], ceilings: Ceilings | None, cache: str, median_s: float) -> SpeedOfLight | None:
    """The fraction of the speed of light that a median reaches."""
    bound = least_time(cost, ceilings, cache) if ceilings else None
    return SpeedOfLight(bound[0], bound[1], bound[1] / median_s) if bound else None


def cost_of(problem: Problem) -> dict[str, Any]:
    """The cost that a workload declared, in the form of `speed_of_light`."""
    return {name: getattr(problem, name) for name in ("bytes_read", "bytes_written", "flops", "precision")}


def under(result: TargetResult, ceilings: Ceilings | None) -> TargetResult:
    """A result whose rows are compared with other ceilings of the same machine; the verdicts stay."""

    def compared(row: Row) -> Row:
        before = row.speed_of_light
        if before is None:
            return row
        found = speed_of_light(cost_of(result.problem), ceilings, result.cache, before.time_s / before.fraction)
        # The same ceilings leave the figures as they are, to the last digit.
        return row if found is None or found.time_s == before.time_s else evolve(row, speed_of_light=found)

    return evolve(result, rows=[compared(row) for row in result.rows])
