"""Joules a call: an implementation runs without pause while its device's energy counter is watched from outside.

The counter moves in steps (some 20 to 100 ms apart on a data-centre GPU, 1 ms on a processor), so its value at an
arbitrary moment is old by as much as a step. What is known well is the moment of a step, to one poll. So power is the energy
between the first and the last step that were seen under load, over the time between them; a call's energy is that power times
the time of a call. What the idle machine draws is measured before in the same way, and both figures are given, with and
without it.

Limits: a counter of a device counts whoever uses it. It is fed by the driver's own sensor, which on some GPUs looks at a
part of the time only (Yang et al., Part-time Power Measurements, 2023): work whose power changes within tens of milliseconds
needs long runs.
"""

import statistics
import threading
import time
from collections.abc import Callable
from itertools import pairwise

from attrs import define, field, frozen

from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.measurements import Energy

Run = Callable[[float], tuple[int, float]]
"""Calls the implementation without pause for at least so many seconds; returns the calls and the seconds that they took."""

COUNTER = "energy counter"
POWER = "integrated power"

POLL_S = 0.002
# Of the time that the supervisor saw, the worker must have been at work for this part, or idling is in the figure.
_BUSY = 0.9
# What starting and ending a run may take on top: messages between processes.
_EDGE_S = 0.1
# So many steps while idle give a step's length and the idle power.
_IDLE_STEPS = 5
# The driver may average power over the last second: what it says then is still about the time before the run.
_POWER_LAG_S = 1.0
_POWER_RUN_S = 4.0


@frozen
class Plan:
    """How long to watch: `idle_s` before, and under load `run_s` or `updates` steps of the counter, whichever is longer.

    longest_s: a run that would take longer than this is not made; nor is a counter waited for that stands still so long.
    """

    idle_s: float = 1.0
    run_s: float = 1.0
    updates: int = 20
    longest_s: float = 30.0


@frozen
class NotMeasurable:
    """Why there is no energy."""

    reason: str


@frozen
class Step:
    """A change of a figure: its value from then on, seen at `at_s`, and at most `gap_s` old by then."""

    at_s: float
    value: float
    gap_s: float = 0.0


@frozen
class Slope:
    """A power in watts, by how much it may be off, and what it rests on."""

    watts: float
    uncertainty_w: float
    updates: int
    update_s: float


def measure(
    run: Run, telemetry: Telemetry, plan: Plan | None = None, *, accept_power: bool = False
) -> Energy | NotMeasurable:
    """Measure the energy of a call. Nothing else may use the device meanwhile, nor another thread this telemetry.

    accept_power: where there is no energy counter, integrate samples of power instead, which is coarser; the result's
    `method` tells.
    """
    plan = plan or Plan()
    if telemetry.energy_j() is not None:
        return _measure(run, telemetry.energy_j, plan, COUNTER)
    reason = f"no energy counter: {telemetry.lacking.get('energy_j', 'the device gave no answer')}"
    if not accept_power:
        return NotMeasurable(reason)
    if telemetry.power_w() is None:
        return NotMeasurable(f"{reason}; and no power: {telemetry.lacking.get('power_w', 'the device gave no answer')}")
    return _measure(run, telemetry.power_w, plan, POWER)


def _measure(run: Run, read: Callable[[], float | None], plan: Plan, method: str) -> Energy | NotMeasurable:
    slope = power_between if method == COUNTER else mean_power
    idle = _idle(read, plan, method)
    if idle is None:
        return NotMeasurable(f"the energy counter did not move {_IDLE_STEPS} times in {plan.longest_s:g} s")
    seconds = max(plan.run_s, (plan.updates + 2) * idle.update_s + 2 * _EDGE_S)
    if method == POWER:
        seconds = max(plan.run_s, _POWER_RUN_S)
    if seconds > plan.longest_s:
        steps = f"{plan.updates} steps of the counter, {idle.update_s:.3g} s each"
        return NotMeasurable(f"{steps}, take longer than {plan.longest_s:g} s")
    with Watch(read) as watch:
        start = time.monotonic()
        calls, took = run(seconds)
        stop = time.monotonic()
    problem = _implausible(calls, took, stop - start)
    if problem:
        return NotMeasurable(problem)
    skip = _POWER_LAG_S if method == POWER else max(idle.update_s, _EDGE_S)
    load = slope(watch.seen, start + skip, stop)
    # Under load a counter may move at another pace than when idle, but then its steps are no measure of the time needed.
    if load is None or (method == COUNTER and load.updates < plan.updates / 2):
        moved = load.updates if load else 0
        return NotMeasurable(f"the {method} moved {moved} times under load, which is too few for a figure")
    if load.watts <= 0:
        return NotMeasurable(
            f"the {method} went backwards: the driver was loaded anew, or the figure is not to be believed"
        )
    return per_call(load, idle, calls, took, method)


def _idle(read: Callable[[], float | None], plan: Plan, method: str) -> Slope | None:
    """What the device takes while nothing runs, watched for as long as its counter needs."""
    with Watch(read) as watch:
        start = time.monotonic()
        time.sleep(plan.idle_s)
        if method == POWER:
            return mean_power(watch.seen, start, time.monotonic())
        while True:
            stop = time.monotonic()
            # Which steps count is known by their gaps, so that no number of values that were seen is enough for certain.
            slope = power_between(list(watch.seen), start, stop)
            if slope is not None and slope.updates >= _IDLE_STEPS:
                return slope
            if stop - start >= plan.longest_s:
                return None
            time.sleep(POLL_S)


def per_call(load: Slope, idle: Slope, calls: int, seconds: float, method: str) -> Energy:
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
        method=method,
    )


def power_between(seen: list[Step], start: float, stop: float) -> Slope | None:
    """The power between the first and the last step of an energy counter in a time; None with fewer than two.

    Each of the two may have come at any moment of its gap, which is what the uncertainty says. What was seen first of all
    may have stood for any time, and is no step.
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
    # A moment that was off by its gap made the time between the two as much longer.
    return Slope(watts, watts * gap / (seconds - gap), len(between), statistics.median(between))


def mean_power(seen: list[Step], start: float, stop: float) -> Slope | None:
    """The mean of a power in a time, each value held until the next; None where nothing was seen before it.

    Between two values the power may have been as either of them, so half their difference is uncertain.
    """
    before = [one for one in seen if one.at_s <= start]
    inside = [one for one in seen if start < one.at_s < stop]
    if not before and not inside:
        return None
    first = before[-1] if before else inside[0]
    held = [Step(start, first.value), *inside]
    ends = [*(one.at_s for one in inside), stop]
    joules = doubt = 0.0
    for one, end, after in zip(held, ends, [*inside, held[-1]], strict=True):
        joules += one.value * (end - one.at_s)
        doubt += abs(after.value - one.value) / 2 * (end - one.at_s)
    seconds = stop - start
    return Slope(joules / seconds, doubt / seconds, len(inside), seconds / max(1, len(inside)))


@define(eq=False)
class Watch:
    """Polls a figure in a thread of its own until the end of a `with` block. `seen` begins with the first value."""

    read: Callable[[], float | None]
    seen: list[Step] = field(factory=list)
    _before_s: float = 0.0
    _stop: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Watch":
        self.poll()
        self._thread = threading.Thread(target=self._go_on, name="aiperf-energy", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.poll()

    def poll(self) -> None:
        """Look once."""
        before = time.monotonic()
        value = self.read()
        after = time.monotonic()
        if value is None:
            return
        if not self.seen:
            self.seen.append(Step(after, value))
        elif value != self.seen[-1].value:
            # It may have changed right after the last look had begun, and it was read before this one ended.
            self.seen.append(Step(after, value, after - self._before_s))
        self._before_s = before

    def _go_on(self) -> None:
        while not self._stop.wait(POLL_S):
            self.poll()


def _implausible(calls: int, took: float, seen: float) -> str:
    """What is wrong with what a worker says of its run, which the supervisor's own clock saw as `seen` seconds."""
    if calls < 1 or not took > 0:
        return f"the worker reported {calls} calls in {took:g} s"
    if took > seen or took < _BUSY * seen - _EDGE_S:
        return f"the worker reported a run of {took:.3g} s; the supervisor saw {seen:.3g} s"
    return ""
