"""Speed of light: the least time that a cost and a machine's ceilings allow."""

import math
from typing import Any

from attrs import evolve

from aiperf_core.cost import WORK
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Problem, Row, SpeedOfLight, TargetResult

# A ceiling is itself measured, so a result may lie a little above it.
BEYOND = 1.02


def compute_roof(ceilings: Ceilings, precision: str) -> float | None:
    """The most operations per second in a precision, by matrix products or by multiply-adds; None without a figure."""
    found = (ceilings.flop_per_s.get(precision), ceilings.vector_flop_per_s.get(precision))
    return max((rate for rate in found if rate), default=None)


def wire_roof(ceilings: Ceilings, ranks: int) -> float | None:
    """The most bytes per second that each of several ranks can send to the others; None without a figure.

    Ranks on GPUs: what the slowest GPU was measured to send, to one other GPU or, of more than two ranks, to all others
    at once. An all-reduce of as many GPUs that was faster counts instead. Ranks on a processor: what one process was
    measured to send to another.
    """
    sent = []
    for rank in range(ranks):
        others = [f"{rank}-{other}" for other in range(ranks) if other != rank]
        others += [f"{rank}-all"] if ranks > 2 else []
        rates = [ceilings.peer_bytes_per_s[pair] for pair in others if pair in ceilings.peer_bytes_per_s]
        if rates:
            sent.append(max(rates))
    found = (min(sent, default=None), ceilings.all_reduce_bytes_per_s.get(str(ranks)), ceilings.loopback_bytes_per_s)
    return max((rate for rate in found if rate), default=None)


def least_time(
    cost: dict[str, Any], ceilings: Ceilings, cache: str, *, lossy: bool = False
) -> tuple[str, float] | None:
    """Return the bound (`memory`, `compute`, `wire` or `disk`) and the least time in seconds; None without a ceiling.

    Reads and writes that balance move at the rate of a copy, the rest at that of a pure read or write. The bytes of a
    warm workload bound it only as far as they exceed the cache. Where the size of the cache is not known, arithmetic
    alone does. Links and disks do not bound a lossy implementation, which may send and store fewer bits. Links do not
    bound ranks on several machines: no link between machines is measured.
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
    if not lossy:
        times |= _wire_time(cost, ceilings) | _disk_time(cost, ceilings)
    if not times:
        return None
    bound = max(times, key=lambda name: times[name])
    return bound, times[bound]


def _wire_time(cost: dict[str, Any], ceilings: Ceilings) -> dict[str, float]:
    rate = wire_roof(ceilings, cost["world_size"]) if cost["world_size"] > 1 and cost["nodes"] == 1 else None
    return {"wire": cost["wire_bytes"] / rate} if cost["wire_bytes"] and rate else {}


def _disk_time(cost: dict[str, Any], ceilings: Ceilings) -> dict[str, float]:
    times = [time for time in disk_times(cost["disk_read_bytes"], cost["disk_written_bytes"], ceilings) if time]
    return {"disk": max(times)} if times else {}


def disk_times(read: float, written: float, ceilings: Ceilings | None) -> list[float | None]:
    """The least times of the reads and of the writes that there are, in seconds; None for one without a ceiling.

    Reads and writes may overlap, so the longer of both bounds the time.
    """
    read_rate = ceilings.disk_read_bytes_per_s if ceilings else None
    write_rate = ceilings.disk_write_bytes_per_s if ceilings else None
    return [amount / rate if rate else None for amount, rate in ((read, read_rate), (written, write_rate)) if amount]


def groups_used(cost: dict[str, Any]) -> list[str]:
    """The groups of ceilings (`wire`, `disk`) that a cost needs beside those of memory and arithmetic."""
    wire = cost["wire_bytes"] and cost["world_size"] > 1 and cost["nodes"] == 1
    disk = cost["disk_read_bytes"] or cost["disk_written_bytes"]
    return ["wire"] * bool(wire) + ["disk"] * bool(disk)


def speed_of_light(
    cost: dict[str, Any], ceilings: Ceilings | None, cache: str, median_s: float, *, lossy: bool = False
) -> SpeedOfLight | None:
    """The fraction of the speed of light that a median reaches."""
    bound = least_time(cost, ceilings, cache, lossy=lossy) if ceilings else None
    return SpeedOfLight(bound[0], bound[1], bound[1] / median_s) if bound else None


def cost_of(problem: Problem) -> dict[str, Any]:
    """The cost that a workload declared, and where its ranks are, in the form of `speed_of_light`."""
    return {name: getattr(problem, name) for name in (*WORK, "precision", "world_size", "nodes")}


def under(result: TargetResult, ceilings: Ceilings | None) -> TargetResult:
    """A result whose rows are compared with other ceilings of the same machine; the verdicts stay."""

    def compared(row: Row) -> Row:
        before = row.speed_of_light
        if before is None:
            return row
        median = before.time_s / before.fraction
        lossy = row.quality is not None
        found = speed_of_light(cost_of(result.problem), ceilings, result.cache, median, lossy=lossy)
        # The same ceilings leave the figures as they are, to the last digit.
        return row if found is None or found.time_s == before.time_s else evolve(row, speed_of_light=found)

    return evolve(result, rows=[compared(row) for row in result.rows])
