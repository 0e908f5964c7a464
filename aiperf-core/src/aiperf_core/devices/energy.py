"""The power and the energy of a call, from the steps of a device's energy counter.

The counter moves in steps (20 to 100 ms apart on a data-centre GPU, 1 ms on a processor), so a value may be old by one
step. The moment of a step is known to one poll. Power is therefore the energy between the first and the last step seen
under load, divided by the time between them; a call's energy is that power times the time of a call. The idle power is
measured before in the same way, and the energy is given with and without it.

Limits: a counter includes all users of the device. The driver's sensor samples only a part of the time on some GPUs
(Yang et al., Part-time Power Measurements, 2023): work whose power changes within tens of milliseconds needs long runs.
"""

import statistics
import threading
import time
from collections.abc import Callable
from itertools import pairwise

from attrs import define, field, frozen

from aiperf_core.measurements import Energy

POLL_S = 0.002


@frozen
class Step:
    """A change of a figure: its new value, seen at `at_s`, and at most `gap_s` old then."""

    at_s: float
    value: float
    gap_s: float = 0.0


@frozen
class Slope:
    """A power in watts with its uncertainty, from `updates` steps of `update_s` seconds (median)."""

    watts: float
    uncertainty_w: float
    updates: int
    update_s: float


def per_call(load: Slope, idle: Slope, calls: int, seconds: float) -> Energy:
    """Energy of a call from the power under load and when idle."""
    each = seconds / calls
    return Energy(
        joules_per_call=load.watts * each,
        net_joules_per_call=(load.watts - idle.watts) * each,
        idle_watts=idle.watts,
        resolution_j=load.uncertainty_w * each,
        net_resolution_j=(load.uncertainty_w + idle.uncertainty_w) * each,
        calls=calls,
        seconds=seconds,
        updates=load.updates,
        update_s=load.update_s,
        method="energy counter",
    )


def power_between(seen: list[Step], start: float, stop: float) -> Slope | None:
    """The power between the first and the last step of an energy counter within a time; None with fewer than two steps.

    Each step may have happened at any moment of its gap, which gives the uncertainty. The first value of all is no
    step: it may be of any age.
    """
    steps = [one for one in seen[1:] if start <= one.at_s - one.gap_s and one.at_s <= stop]
    if len(steps) < 2:
        return None
    first, last = steps[0], steps[-1]
    seconds, gap = last.at_s - first.at_s, max(first.gap_s, last.gap_s)
    if seconds <= gap:
        return None
    watts = (last.value - first.value) / seconds
    between = [after.at_s - before.at_s for before, after in pairwise(steps)]
    # The true time between the steps may be shorter by a gap.
    return Slope(watts, watts * gap / (seconds - gap), len(between), statistics.median(between))


@define(eq=False)
class Watch:
    """Polls a figure in another thread until the end of a `with` block; `seen` begins with its first value."""

    read: Callable[[], float | None]
    seen: list[Step] = field(factory=list)
    _before_s: float = 0.0
    _stop: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Watch":
        self.poll()
        self._thread = threading.Thread(target=self._poll_on, name="aiperf-energy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.poll()

    def poll(self) -> None:
        """Read the figure once."""
        before = time.monotonic()
        value = self.read()
        after = time.monotonic()
        if value is None:
            return
        if not self.seen:
            self.seen.append(Step(after, value))
        elif value != self.seen[-1].value:
            # The change is between the start of the last read and the end of this one.
            self.seen.append(Step(after, value, after - self._before_s))
        self._before_s = before

    def _poll_on(self) -> None:
        while not self._stop.wait(POLL_S):
            self.poll()
