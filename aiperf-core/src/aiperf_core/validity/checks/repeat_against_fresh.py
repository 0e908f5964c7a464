"""Whether calls are faster on values of an earlier call: the only trace of an answer that is kept and right."""

import math
from collections.abc import Sequence

import numpy as np

from aiperf_core.stats.mann_whitney import chance_of_excess
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence

MIN_CALLS = 5
# Repeated calls may take this part of the time that the baseline's ratio gives.
LEAST_RATIO = 0.7
# Warm caches explain a ratio down to this, whatever the baseline's.
LEAST_EXPECTED = 0.3
# The order of the calls is drawn, so that calls which are all alike differ as clearly by chance this seldom. Few calls
# never do: of a run that ends early nobody is accused.
MOST_CHANCE = 1e-4
# A shorter gap is below the resolution of clocks.
LEAST_GAP_S = 1e-6


def look(evidence: Evidence) -> list[Seen] | NotObserved:
    """Compare times on repeated and on refreshed inputs; the baseline's ratio is what warm caches gain."""
    if evidence.baseline is None:
        return NotObserved("without a baseline, the gain of warm caches is unknown")
    ours = _counted(evidence.repeated_s), _counted(evidence.fresh_s)
    if (fewest := min(map(len, ours))) < MIN_CALLS:
        return NotObserved(f"{fewest} calls with repeated or refreshed inputs; {MIN_CALLS} of each are necessary")
    if not gains(*ours):
        return []
    theirs = _counted(evidence.baseline.repeated_s), _counted(evidence.baseline.fresh_s)
    if (fewest := min(map(len, theirs))) < MIN_CALLS:
        return NotObserved(
            f"{fewest} calls of the baseline with repeated or refreshed inputs; {MIN_CALLS} of each are necessary"
        )
    expected = min(1.0, max(LEAST_EXPECTED, float(np.median(theirs[0]) / np.median(theirs[1]))))
    if not gains(*ours, expected):
        return []
    repeated_s, fresh_s = (float(np.median(times)) for times in ours)
    several = max(evidence.samples.calls, default=1) > 1
    message = (
        f"a call takes {repeated_s * 1e6:.3g} us with repeated inputs and {fresh_s * 1e6:.3g} us with refreshed "
        f"inputs; the baseline's ratio of the two, {expected:.2f}, explains {expected * fresh_s * 1e6:.3g} us"
    )
    figures = {"repeated_s": repeated_s, "fresh_s": fresh_s, "expected_ratio": expected, "calls": len(ours[0])}
    return [Seen("replay.within_sample" if several else "replay.by_value", message, figures)]


def gains(repeated_s: Sequence[float], fresh_s: Sequence[float], expected: float = 1.0) -> bool:
    """Whether repeated calls are faster than a ratio that warm caches explain, which is at most 1."""
    repeated, fresh = _counted(repeated_s), _counted(fresh_s)
    if not (repeated and fresh):
        return False
    # Not the medians alone: three of four repeated calls are faster than three of four fresh ones.
    apart = bool(np.quantile(repeated, 0.75) < np.quantile(fresh, 0.25))
    apart = apart and chance_of_excess(fresh, repeated) < MOST_CHANCE
    ours, theirs = float(np.median(repeated)), float(np.median(fresh))
    return apart and ours < LEAST_RATIO * expected * theirs and theirs - ours >= LEAST_GAP_S


def _counted(times: Sequence[float]) -> list[float]:
    return [one for one in times if math.isfinite(one) and one > 0]


CHECK = Check("repeat_against_fresh", look)
