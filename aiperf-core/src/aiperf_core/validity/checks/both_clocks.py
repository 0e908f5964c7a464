"""Both clocks: that what is faster on the GPU is not slower for whoever calls it, without anybody being told.

A benchmark by the GPU's clock leaves out what the driver and the host's code take, by design. Each block has a sample by the
caller's clock too, so that a variant which only moves work from the one to the other is seen.
"""

from collections.abc import Iterable
from statistics import median

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.checks.self_check import call_times
from aiperf_core.validity.evidence import Evidence

# Faster by the GPU's clock and slower by the caller's, each by more than its noise: launches alone differ by microseconds.
_FASTER, _SLOWER, _SLOWER_S = 0.99, 1.1, 20e-6


def look(evidence: Evidence) -> Iterable[Seen] | NotObserved:
    """What the caller's clock shows beside the GPU's."""
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
        f"by the GPU's clock it takes {device:.3g} times the baseline's time, and its caller waits {wall:.3g} times as long as "
        f"the baseline's: {ours[1]:.3g} s"
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
