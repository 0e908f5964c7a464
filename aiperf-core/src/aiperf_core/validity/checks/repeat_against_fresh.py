"""Whether calls are faster on values of an earlier call: the only trace of an answer that is kept and right."""

import math
from collections.abc import Iterable

import numpy as np

from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence

MIN_CALLS = 5
# Repeated calls may take this part of the time that the baseline's ratio gives.
LEAST_RATIO = 0.7
# Warm caches explain a ratio down to this, whatever the baseline's.
LEAST_EXPECTED = 0.3
# A shorter gap is below the resolution of clocks.
LEAST_GAP_S = 1e-6


def look(evidence: Evidence) -> list[Seen] | NotObserved:
    """Compare times on repeated and on fresh values; the baseline's ratio is what warm caches gain."""
    if evidence.baseline is None:
        return NotObserved("without a baseline, the gain of warm caches is unknown")
    sides = [(one.repeated_s, one.fresh_s) for one in (evidence, evidence.baseline)]
    counted = [[list(_times(times)) for times in side] for side in sides]
    fewest = min(len(times) for side in counted for times in side)
    if fewest < MIN_CALLS:
        return NotObserved(
            f"{fewest} calls with repeated or refreshed inputs; {MIN_CALLS} of each are necessary, for the baseline too"
        )
    ours, theirs = ([np.asarray(times) for times in side] for side in counted)
    expected = min(1.0, max(LEAST_EXPECTED, float(np.median(theirs[0]) / np.median(theirs[1]))))
    repeated_s, fresh_s = (float(np.median(times)) for times in ours)
    # Not the medians alone: three of four repeated calls are faster than three of four fresh ones.
    apart = np.quantile(ours[0], 0.75) < np.quantile(ours[1], 0.25)
    if not apart or repeated_s >= LEAST_RATIO * expected * fresh_s or fresh_s - repeated_s < LEAST_GAP_S:
        return []
    several = max(evidence.samples.calls, default=1) > 1
    message = (
        f"a call takes {repeated_s * 1e6:.3g} us with repeated inputs and {fresh_s * 1e6:.3g} us with refreshed "
        f"inputs; the baseline's ratio of the two, {expected:.2f}, explains {expected * fresh_s * 1e6:.3g} us"
    )
    figures = {"repeated_s": repeated_s, "fresh_s": fresh_s, "expected_ratio": expected, "calls": len(ours[0])}
    return [Seen("replay.within_sample" if several else "replay.by_value", message, figures)]


def _times(times: Iterable[float]) -> Iterable[float]:
    return (one for one in times if math.isfinite(one) and one > 0)


CHECK = Check("repeat_against_fresh", look)
