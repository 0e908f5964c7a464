"""Speed of light: the least time that a cost and a machine's ceilings allow."""

import math
from collections.abc import Iterable
from typing import Any

from attrs import evolve

from aiperf_core.ceiling_groups import GROUPS
from aiperf_core.cost import WORK
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Observations, Problem, Row, SpeedOfLight, TargetResult

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


def bound_times(cost: dict[str, Any], ceilings: Ceilings, cache: str, *, lossy: bool = False) -> dict[str, float]:
    """The least time in seconds that each resource alone allows, by bound; none for one without a ceiling.

    Reads and writes that balance move at the rate of a copy, the rest at that of a pure read or write. The bytes of a
    warm workload bound it only as far as they exceed the cache. Where the size of the cache is not known, memory sets
    no bound. The two directions of PCIe, and those of a disk, may overlap, so the longer of both counts. What moves
    does not bound a lossy implementation, which may move fewer bits, but for the memory. Links do not bound ranks on
    several machines: no link between machines is measured.
    """
    times: dict[str, float] = {}

    def take(bound: str, amount: float, per_s: float | None) -> None:
        if amount and per_s:
            times[bound] = max(times.get(bound, 0.0), amount / per_s)

    take("compute", cost["flops"], compute_roof(ceilings, cost["precision"]))
    held = 0 if cache == "cold" else ceilings.cache_bytes or math.inf
    read, written = (max(0, cost[name] - held) for name in ("bytes_read", "bytes_written"))
    if read + written:
        both = min(read, written)
        times["memory"] = (
            2 * both / ceilings.copy_bytes_per_s
            + (read - both) / ceilings.read_bytes_per_s
            + (written - both) / ceilings.write_bytes_per_s
        )
    take("sectors", cost["sectors"], ceilings.sectors_per_s)
    take("special", cost["special_functions"], ceilings.special_functions_per_s)
    take("launches", cost["launches"], _inverse(ceilings.graph_launch_s))
    take("steps", cost["serial_steps"], _inverse(ceilings.serial_step_s))
    if lossy:
        return times
    take("shared", cost["shared_bytes"], ceilings.shared_bytes_per_s)
    take("pcie", cost["to_device_bytes"], ceilings.transfer_bytes_per_s.get("pinned_to_device"))
    take("pcie", cost["from_device_bytes"], ceilings.transfer_bytes_per_s.get("pinned_from_device"))
    take("disk", cost["disk_read_bytes"], ceilings.disk_read_bytes_per_s)
    take("disk", cost["disk_written_bytes"], ceilings.disk_write_bytes_per_s)
    if cost["world_size"] > 1 and cost["nodes"] == 1:
        take("wire", cost["wire_bytes"], wire_roof(ceilings, cost["world_size"]))
    return times


def _inverse(seconds: float | None) -> float | None:
    return 1 / seconds if seconds else None


def disk_times(read: float, written: float, ceilings: Ceilings | None) -> list[float | None]:
    """The least times of the reads and of the writes that there are, in seconds; None for one without a ceiling.

    Reads and writes may overlap, so the longer of both bounds the time.
    """
    read_rate = ceilings.disk_read_bytes_per_s if ceilings else None
    write_rate = ceilings.disk_write_bytes_per_s if ceilings else None
    return [amount / rate if rate else None for amount, rate in ((read, read_rate), (written, write_rate)) if amount]


def groups_used(costs: Iterable[dict[str, Any]]) -> list[str]:
    """The groups of ceilings that costs need beside those of memory and arithmetic."""
    used: dict[str, None] = {}
    for cost in costs:
        one_machine = cost["world_size"] > 1 and cost["nodes"] == 1
        for name, group in GROUPS.items():
            if any(cost[amount] for amount in group.amounts) and (name != "wire" or one_machine):
                used[name] = None
    return [*used]


def speed_of_light(
    cost: dict[str, Any], ceilings: Ceilings | None, cache: str, median_s: float, *, lossy: bool = False
) -> SpeedOfLight | None:
    """The fraction of the speed of light that a median reaches, by the resource that takes longest."""
    times = bound_times(cost, ceilings, cache, lossy=lossy) if ceilings else {}
    if cost.get("optimum_s"):  # of virtual time, which no resource of this machine bounds
        times = {"optimum": cost["optimum_s"]}
    if not times:
        return None
    bound = max(times, key=lambda name: times[name])
    return SpeedOfLight(bound, times[bound], times[bound] / median_s)


def cost_of(problem: Problem) -> dict[str, Any]:
    """The cost that a workload declared, and where its ranks are, in the form of `speed_of_light`."""
    return {name: getattr(problem, name) for name in (*WORK, "optimum_s", "precision", "world_size", "nodes")}


def own_cost(cost: dict[str, Any], implementation: Observations) -> dict[str, Any]:
    """The cost of an implementation: that of the workload, with the amounts that its author declared for it."""
    precision = implementation.precision or cost["precision"]
    return {**cost, **implementation.least_work, "precision": precision}


def under(result: TargetResult, ceilings: Ceilings | None) -> TargetResult:
    """A result whose rows are compared with other ceilings of the same machine; the verdicts stay."""

    def compared(row: Row) -> Row:
        before = row.speed_of_light
        if before is None:
            return row
        median = before.time_s / before.fraction
        cost, lossy = own_cost(cost_of(result.problem), row), row.quality is not None
        found = speed_of_light(cost, ceilings, result.cache, median, lossy=lossy)
        # The same ceilings leave the figures as they are, to the last digit.
        return row if found is None or found.time_s == before.time_s else evolve(row, speed_of_light=found)

    return evolve(result, rows=[compared(row) for row in result.rows])
