"""Both clocks: whether a variant is faster by the GPU's clock and slower by the caller's.

The GPU's clock leaves out the time of the driver and of the host's code. Each block has a sample by the caller's clock
too, so that a variant which only moves work to the host is found.
"""

from collections.abc import Iterable
from statistics import median

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.checks.self_check import call_times
from aiperf_core.validity.evidence import Evidence

# Faster by the GPU's clock and slower by the caller's, each beyond its noise: launches differ by microseconds.
_FASTER, _SLOWER, _SLOWER_S = 0.99, 1.1, 20e-6


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """Compare both clocks with the baseline's."""
    if evidence.clock != "device":
        return NotObserved("the benchmark is by the caller's clock")
    if evidence.baseline is None:
        return []
    ours, theirs = (_medians(one) for one in (evidence, evidence.baseline))
    if ours is None or theirs is None:
        return NotObserved("no sample was taken by the caller's clock")
    device, wall = ours[0] / theirs[0], ours[1] / theirs[1]
    if device > _FASTER or wall < _SLOWER or ours[1] - theirs[1] < _SLOWER_S:
        return []
    message = (
        f"by the GPU's clock it takes {device:.3g} times the baseline's time, and by the caller's clock {wall:.3g} "
        f"times the baseline's time: {ours[1]:.3g} s"
    )
    figures = {"device_s": ours[0], "wall_s": ours[1], "baseline_device_s": theirs[0], "baseline_wall_s": theirs[1]}
    return [Seen("cuda.driver_overhead", message, figures)]


def _medians(evidence: Evidence) -> tuple[float, float] | None:
    """The median of a call by the GPU's clock and by the caller's, in seconds."""
    found = [[time for _, time in call_times(evidence.samples, clock)] for clock in ("device", "wall")]
    if not all(found) or min(median(one) for one in found) <= 0:
        return None
    return median(found[0]), median(found[1])


CHECK = Check("both_clocks", look)
