"""Turns of the witness: how much slower the processor was before the samples than it is when quiet."""

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_core import units
from aiperf_core.measurements import Samples
from aiperf_core.measurements import Spread as Range
from aiperf_core.results.models import Sighting
from aiperf_core.stats.conditions import LOAD
from aiperf_core.stats.observations import Clocks

# A turn of the witness that takes this part longer than a quiet one is disturbed, and so is the sample after it.
OFF = 0.1
# The share of the caller's time beyond the device's, from which the host decides a time.
HOST_BOUND = 0.3
# The share of disturbed samples from which a median says little of a quiet machine.
_MOST_DISTURBED = 0.5
# A thread that lost its processor has it back after a time slice of the kernel, which is no shorter.
_SLICE_S = 0.003


@frozen
class Witnessed:
    """The turns of the witness before the samples by the wall clock, in units of the quiet turn.

    ratios: NaN where no turn was run.
    """

    ratios: NDArray[np.float64]

    @classmethod
    def of(cls, samples: Samples, quiet_s: float | None) -> "Witnessed":
        """The witness of the samples by the wall clock. `quiet_s` is the quiet time of a turn, None if unknown."""
        taken = samples.witness_s or [None] * len(samples.wall_s)  # a bundle without the column has no turns
        pairs = zip(taken, samples.wall_s, strict=True)
        turns = [np.nan if turn is None else turn for turn, wall in pairs if wall is not None]
        return cls(np.array(turns, dtype=np.float64) / (quiet_s or np.nan))

    @property
    def known(self) -> NDArray[np.float64]:
        """The ratios of the samples with a witness."""
        return self.ratios[~np.isnan(self.ratios)]

    @property
    def disturbed(self) -> NDArray[np.bool_]:
        """For each sample, whether its witness was off; false where it had none."""
        return np.nan_to_num(self.ratios, nan=1.0) > 1 + OFF

    @property
    def spread(self) -> Range | None:
        """The least, the median and the largest ratio; None without a witness."""
        known = self.known
        return Range(float(known.min()), float(np.median(known)), float(known.max())) if len(known) else None


def is_host_bound(samples: Samples, clocks: Clocks) -> bool:
    """Whether the host decides the time of a call by the wall clock: no device does, or for a part of it only.

    Where launches could not be hidden, the device's clock counts the host's time too, and nothing is known of it.
    """
    device, wall = clocks.median(samples, "device"), clocks.median(samples, "wall")
    pairs = zip(samples.hidden, samples.device_s, strict=False)  # nothing hides in a bundle without that column
    hidden = all(hid for hid, time_s in pairs if time_s is not None)
    return device is None or wall is None or not hidden or 1 - device / wall > HOST_BOUND


def never_quiet(samples: Samples, quiet_s: float | None) -> Sighting | None:
    """A warning where other work disturbed most samples by the wall clock; None elsewhere, and without a witness."""
    witnessed = Witnessed.of(samples, quiet_s)
    if witnessed.spread is None:
        return None
    columns = zip(samples.involuntary_switches, samples.wall_s, strict=True)
    lost = np.array([switches * _SLICE_S > OFF * wall for switches, wall in columns if wall is not None])
    share = float(np.mean(lost | witnessed.disturbed))
    if share < _MOST_DISTURBED:
        return None
    median, lost_share = witnessed.spread.median, float(lost.mean())
    told = []
    if witnessed.disturbed.any():
        took = units.number(median) if median > 1 + OFF else f"up to {units.number(witnessed.spread.high)}"
        told.append(f"a fixed loop on the host took {took}x its quiet time")
    if lost_share:
        told.append(f"{units.percent(lost_share)} lost a processor to other work")
    message = f"{units.percent(share)} of the samples were disturbed: {', '.join(told)}; repeat it on a quiet machine"
    return Sighting(LOAD, message, {"share": share, "witness": median, "lost_share": lost_share})
