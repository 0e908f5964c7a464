"""Whether other work on the machine may explain a difference by the wall clock.

Waiting for a processor only adds to a time, and more to that of a short call or of several threads. It need not hit
both sides alike, and may hit a side in all of its samples. So the samples that lost no processor decide: they must show
the same difference, of the same size.
"""

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_core import units
from aiperf_core.measurements import Samples
from aiperf_core.results.models import Conditions, Verdict
from aiperf_core.stats.conditions import BACKGROUND
from aiperf_core.stats.intervals import MIN_PASSES, Blocks, ratio_interval, unclear_order, verdict

# Share of samples that lost a processor, from which those that lost none are looked at. Fewer move the median by no
# more than the distance of neighbouring quantiles.
INTERRUPTED = 0.05
# Relative difference of a speedup by all samples from that by the samples that lost no processor.
SIZE = 0.1


@frozen
class Side:
    """The times of a side of a comparison by the wall clock; `lost`: which samples lost a processor."""

    name: str
    blocks: Blocks
    lost: NDArray[np.bool_]

    @classmethod
    def of(cls, name: str, blocks: Blocks, samples: Samples) -> "Side":
        """A side from all blocks of its samples by the wall clock."""
        pairs = zip(samples.involuntary_switches, samples.wall_s, strict=True)
        return cls(name, blocks, np.array([switches > 0 for switches, time in pairs if time is not None], dtype=bool))

    @property
    def share(self) -> float:
        """The share of the samples that lost a processor."""
        return float(self.lost.mean()) if len(self.lost) else 0.0

    @property
    def undisturbed(self) -> Blocks:
        """The samples that lost no processor."""
        return self.blocks.only(~self.lost)


def explained_by_load(
    baseline: Side, own: Side, said: Verdict, floor: float, conditions: Sequence[Conditions | None]
) -> str | None:
    """Why other work may explain a verdict of FASTER or SLOWER; None where it does not.

    conditions: of both sides. Of long calls each sample loses a processor now and then. Where too few lost none, there
    is a verdict only if other processes are known to have kept few processors busy.
    """
    if said not in (Verdict.FASTER, Verdict.SLOWER) or max(baseline.share, own.share) < INTERRUPTED:
        return None
    most = max(baseline, own, key=lambda side: side.share)
    lost = f"{units.percent(most.share)} of the samples of {most.name} lost a processor to other work"
    kept = baseline.undisturbed, own.undisturbed
    ratio = ratio_interval(*kept)
    if ratio is None:
        if all(each is not None and each.background and each.background.median <= BACKGROUND for each in conditions):
            return None
        passes = len(np.intersect1d(kept[0].present, kept[1].present))
        return (
            f"{lost}; {passes} passes have samples of both sides that lost none, and a verdict needs {MIN_PASSES}: "
            "repeat it on a quiet machine, or give it more time with --budget"
        )
    told = float(np.median(baseline.blocks.times) / np.median(own.blocks.times))
    same_size = 1 / (1 + SIZE) <= told / ratio.value <= 1 + SIZE
    if verdict(ratio, floor) is said and same_size and unclear_order(*kept, said) is None:
        return None
    return (
        f"{lost}; the samples that lost none show {ratio.value:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}], and all "
        f"samples {told:.3g}x: repeat it on a quiet machine, or give it more time with --budget"
    )
