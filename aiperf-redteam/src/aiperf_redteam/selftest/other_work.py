"""The work of other processes beside a run, from the kernel's counts."""

import contextlib
import os
import re
import time
from pathlib import Path

import psutil
from attrs import define, field, frozen

# The kernel counts time in ticks of 10 ms; a share over a shorter time would be noise.
LEAST_S = 0.5
_STAT = Path("/proc/stat")


@frozen
class _Look:
    """Seconds of the processors that this process may use, and of its processes."""

    at_s: float
    all_s: float
    busy_s: float
    own_s: float


@define
class OtherWork:
    """The share of the usable processors that neither this process nor any below it has used since this was made.

    What an attack starts lies below, whatever it is: it is no excuse for a guard that does not see it.
    """

    _before: _Look | None = field(factory=lambda: _look())

    def share(self) -> float | None:
        """The share until now, that of other guests of the host included; None where it is not known."""
        now, before = _look(), self._before
        if now is None or before is None or now.at_s - before.at_s < LEAST_S or now.all_s <= before.all_s:
            return None
        others_s = (now.busy_s - before.busy_s) - (now.own_s - before.own_s)
        return min(1.0, max(0.0, others_s / (now.all_s - before.all_s)))


def _look() -> _Look | None:
    try:
        lines = re.findall(r"^cpu(\d+) (.*)$", _STAT.read_text(), re.MULTILINE)
    except OSError:
        return None
    ticks = [[*map(int, counts.split())][:8] for number, counts in lines if int(number) in os.sched_getaffinity(0)]
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    # The fourth and fifth count are idle time. `user` and `nice` contain the time of guests of this machine.
    busy = sum(sum(counts) - sum(counts[3:5]) for counts in ticks)
    here = psutil.Process()
    own_s = 0.0
    for process in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            own_s += sum(process.cpu_times()[:4])  # also of its children that have ended
    return _Look(time.monotonic(), sum(map(sum, ticks)) * tick_s, busy * tick_s, own_s)
