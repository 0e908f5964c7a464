"""The parts of a measured time, and how they change on another machine.

The memory, the arithmetic, the links and the disk may work at the same time, so the longest of these parts counts.
Launches and a remainder, which no ceiling explains, come on top. On another machine each part scales with its own
ceiling. The remainder may scale with the resource that bounds the time (optimistic on a faster machine), or stay
(pessimistic).
"""

from collections.abc import Mapping

from attrs import evolve, frozen

from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Row, TargetResult
from aiperf_core.stats.speed_of_light import bound_times, compute_roof, cost_of, own_cost


class Refused(Exception):
    """A question that the figures of a row do not answer. The message is the reason."""


@frozen
class Parts:
    """The parts of a time in seconds.

    roofs: by the bounds of `bound_times`, without launches.
    launches: kernels of a call times the time from one kernel to the next.
    rest: the remainder.
    """

    roofs: Mapping[str, float]
    launches: float = 0.0
    rest: float = 0.0

    @property
    def bound(self) -> str:
        """The longest of the roofs."""
        return max(self.roofs, key=lambda name: self.roofs[name])


def roofs(result: TargetResult, row: Row, ceilings: Ceilings) -> dict[str, float]:
    """The least time of each resource. Raises Refused where there is none."""
    cost, lossy = own_cost(cost_of(result.problem), row), row.quality is not None
    times = bound_times(cost, ceilings, result.cache, lossy=lossy)
    times.pop("launches", None)
    if not times:
        raise Refused("neither its work nor the ceilings bound its time")
    return times


def parts(result: TargetResult, row: Row, ceilings: Ceilings) -> Parts:
    """The parts of a row's median. Raises Refused where they exceed it, so that one of them is wrong."""
    if row.time_s is None:
        raise Refused("its time was not measured")
    found = Parts(roofs(result, row, ceilings), launches(row, ceilings))
    rest = row.time_s.value - found.roofs[found.bound] - found.launches
    if rest < 0:
        raise Refused(
            "its work and launches would take longer than it was measured to take, so a ceiling does not hold for it"
        )
    return evolve(found, rest=rest)


def launches(row: Row, ceilings: Ceilings) -> float:
    """The time of the launches of a call; 0 where they were not counted, which leaves them in the remainder."""
    if row.audit is None or ceilings.launch_s is None:
        return 0.0
    return ceilings.launch_s * sum(one.count for one in row.audit.work if one.kind == "kernel")


def moved(result: TargetResult, row: Row, now: Ceilings, then: Ceilings) -> tuple[float, float, str]:
    """The least and the longest time on another machine, in seconds, and what bounds it there.

    Raises Refused where the row has no parts, the other machine lacks a ceiling, or its cache changes the work.
    """
    _check_cache(result, now, then)
    if (
        result.problem.flops
        and compute_roof(now, result.problem.precision)
        and not compute_roof(then, result.problem.precision)
    ):
        raise Refused(f"the other machine has no ceiling for {result.problem.precision}")
    before = parts(result, row, now)
    after = Parts(roofs(result, row, then), launches(row, then))
    missing = before.roofs.keys() - after.roofs.keys()
    if missing:
        raise Refused(f"the other machine has no ceiling for {', '.join(sorted(missing))}")
    least = after.roofs[after.bound] + after.launches
    factor = after.roofs[before.bound] / before.roofs[before.bound]
    ends = (least + before.rest * factor, least + before.rest)
    return min(ends), max(ends), after.bound


def _check_cache(result: TargetResult, now: Ceilings, then: Ceilings) -> None:
    """A warm working set must lie on the same side of both caches."""
    if result.cache == "cold" or now.cache_bytes == then.cache_bytes:
        return
    held = result.problem.input_bytes + result.problem.output_bytes
    if not now.cache_bytes or not then.cache_bytes:
        raise Refused("its inputs are warm, and the size of a cache is not known")
    if (held <= now.cache_bytes) != (held <= then.cache_bytes):
        raise Refused("its working set fits the cache of one machine and not that of the other")


def scaled(ceilings: Ceilings, *, clock: float = 1.0, memory: float = 1.0) -> Ceilings:
    """The ceilings at another clock of the processor, or another rate of the memory; both as factors.

    Arithmetic and caches follow the clock. Launches, links and disks stay.
    """
    return evolve(
        ceilings,
        flop_per_s={name: rate * clock for name, rate in ceilings.flop_per_s.items()},
        vector_flop_per_s={name: rate * clock for name, rate in ceilings.vector_flop_per_s.items()},
        multiply_add_flop_per_s={name: rate * clock for name, rate in ceilings.multiply_add_flop_per_s.items()},
        cache_bytes_per_s=ceilings.cache_bytes_per_s and ceilings.cache_bytes_per_s * clock,
        shared_bytes_per_s=ceilings.shared_bytes_per_s and ceilings.shared_bytes_per_s * clock,
        special_functions_per_s=ceilings.special_functions_per_s and ceilings.special_functions_per_s * clock,
        serial_step_s=ceilings.serial_step_s and ceilings.serial_step_s / clock,
        sectors_per_s=ceilings.sectors_per_s and ceilings.sectors_per_s * memory,
        copy_bytes_per_s=ceilings.copy_bytes_per_s * memory,
        read_bytes_per_s=ceilings.read_bytes_per_s * memory,
        write_bytes_per_s=ceilings.write_bytes_per_s * memory,
    )
