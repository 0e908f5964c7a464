"""The energy of a call: an implementation runs without pause while the supervisor polls the device's energy counter."""

import time
from collections.abc import Callable

from attrs import frozen

from aiperf_core.devices.energy import POLL_S, Slope, Watch, per_call, power_between
from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.measurements import Energy

Run = Callable[[float], tuple[int, float]]
"""Calls the implementation without pause for at least the given seconds; returns the calls and their seconds."""

# The part of the supervisor's time that the worker must have been running; otherwise idle time is in the figure.
_BUSY = 0.9
# Time for messages at the start and end of a run.
_EDGE_S = 0.1
# The number of steps from which a step's length and the idle power are taken.
_IDLE_STEPS = 5


@frozen
class Plan:
    """How long to measure.

    idle_s: the time before the load.
    run_s, updates: the time under load: seconds or steps of the counter, whichever is longer.
    longest_s: the maximum time of a run, and of waiting for the counter to move.
    """

    idle_s: float = 1.0
    run_s: float = 1.0
    updates: int = 20
    longest_s: float = 30.0


@frozen
class NotMeasurable:
    """Why there is no figure."""

    reason: str


def measure(run: Run, telemetry: Telemetry, plan: Plan | None = None) -> Energy | NotMeasurable:
    """Measure the energy of a call. No other work may use the device, and no other thread this telemetry."""
    plan, read = plan or Plan(), telemetry.energy_j
    if read() is None:
        return NotMeasurable(f"no energy counter: {telemetry.lacking.get('energy_j', 'the device gave no answer')}")
    idle = _idle(read, plan)
    if idle is None:
        return NotMeasurable(f"the energy counter did not move {_IDLE_STEPS} times in {plan.longest_s:g} s")
    seconds = max(plan.run_s, (plan.updates + 2) * idle.update_s + 2 * _EDGE_S)
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
    load = power_between(watch.seen, start + max(idle.update_s, _EDGE_S), stop)
    # Under load a counter may move at another pace than idle, so the planned time may hold too few steps.
    if load is None or load.updates < plan.updates / 2:
        moved = load.updates if load else 0
        return NotMeasurable(f"the energy counter moved {moved} times under load, too few for a figure")
    if load.watts <= 0:
        return NotMeasurable("the energy counter went backwards: the driver was reloaded, or the counter is faulty")
    return per_call(load, idle, calls, took)


def _idle(read: Callable[[], float | None], plan: Plan) -> Slope | None:
    """The power of the idle device, measured for as long as its counter needs."""
    with Watch(read) as watch:
        start = time.monotonic()
        time.sleep(plan.idle_s)
        while True:
            stop = time.monotonic()
            # `power_between` may discard steps by their gaps, so the number of values seen does not suffice.
            slope = power_between(list(watch.seen), start, stop)
            if slope is not None and slope.updates >= _IDLE_STEPS:
                return slope
            if stop - start >= plan.longest_s:
                return None
            time.sleep(POLL_S)


def _implausible(calls: int, took: float, seen: float) -> str:
    """Why a worker's report of its run is implausible; `seen` is the supervisor's time in seconds."""
    if calls < 1 or not took > 0:
        return f"the worker reported {calls} calls in {took:g} s"
    if took > seen or took < _BUSY * seen - _EDGE_S:
        return f"the worker reported a run of {took:.3g} s; the supervisor measured {seen:.3g} s"
    return ""
