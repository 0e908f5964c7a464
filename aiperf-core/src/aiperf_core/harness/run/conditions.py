"""Beside the samples: the machine's state after each block, workers' processes between blocks, the energy of a call."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable

from attrs import define, evolve, field, frozen

from aiperf_core.devices.cpu_telemetry import CpuLoad
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.energy import POLL_S, Slope, Watch, per_call, power_between
from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.harness.isolation.process_monitor import WATCH_S, ProcessMonitor
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.setup import Setup
from aiperf_core.measurements import DeviceState, Energy, Reading
from aiperf_core.stats.conditions import throttled_blocks

# Every so many blocks a reading is complete; the others leave out what is slow to read.
_FULL_READING = 8


@define(eq=False)
class Conditions:
    """Telemetry of the devices of a run: the first one's, and those of the other ranks of this machine by rank."""

    kind: DeviceKind
    telemetry: Telemetry = field(init=False)
    _load: CpuLoad = field(factory=CpuLoad, init=False)
    _of_ranks: dict[int, Telemetry] = field(factory=dict, init=False)
    _blocks: int = field(default=0, init=False)
    _newest: Reading | None = field(default=None, init=False)
    _complete: Reading | None = field(default=None, init=False)

    @telemetry.default
    def _opened(self) -> Telemetry:
        return self.kind.telemetry()

    def read(self, one: Participant, own_pids: list[int]) -> None:
        """Add a reading after a block of an implementation, and mark the block where the clocks were held down."""
        self._blocks += 1
        light = self._blocks % _FULL_READING != 0
        reading = self._newest = self.telemetry.read(own_pids, light=light)
        one.recorder.readings.append(reading)
        if not light or self._complete is None:
            self._complete = reading
        for rank, telemetry in self._other_ranks(one).items():
            one.recorder.ranks.readings.setdefault(rank, []).append(telemetry.read(own_pids, light=light))
        all_readings = (one.recorder.readings, *one.recorder.ranks.readings.values())
        if any(throttled_blocks([readings[-1] for readings in all_readings])):
            one.recorder.mark_throttled()

    def begin_round(self, own_pids: Iterable[int]) -> None:
        """Look at the load of the processors, before the samples of a round."""
        self._load.begin(own_pids)

    def end_round(self, participants: Iterable[Participant], own_pids: list[int]) -> None:
        """Add a reading of the load over the whole round: blocks may be too short for readings of their own."""
        busy, own, steal = self._load.shares(own_pids)
        if busy is not None:
            reading = Reading(at_s=time.monotonic(), cpu_busy=busy, cpu_own=own, steal=steal)
            for one in participants:
                one.recorder.loads.append(reading)

    @property
    def state(self) -> DeviceState | None:
        """The device at the last blocks; None before the first. Reads nothing."""
        newest, complete = self._newest, self._complete
        if newest is None or complete is None:
            return None
        clock_hz = complete.cpu_clock_hz if newest.sm_clock_hz is None else newest.sm_clock_hz
        return DeviceState(clock_hz=clock_hz, temperature_c=complete.temperature_c, throttled=newest.throttled)

    def _other_ranks(self, one: Participant) -> dict[int, Telemetry]:
        if isinstance(one.child, RankGroup):
            for rank in one.child.numbers_here[1:]:
                if rank not in self._of_ranks and (telemetry := self.kind.rank_telemetry(rank)) is not None:
                    self._of_ranks[rank] = telemetry
        return self._of_ranks

    def close(self) -> None:
        """Let go of the drivers and files."""
        for telemetry in (self.telemetry, *self._of_ranks.values()):
            telemetry.close()


# How often a worker's process is looked at for certain, right after its start.
_CENSUSES = 4
# The part of the time of later passes that is spent on looking again.
_SHARE = 0.03


@define(eq=False)
class Censuses:
    """Takes censuses of the workers' processes."""

    setup: Setup
    telemetry: Telemetry
    _monitors: dict[str, ProcessMonitor] = field(factory=dict, init=False)
    _taken: Counter[ProcessMonitor] = field(factory=Counter, init=False)
    _rng: random.Random = field(factory=random.SystemRandom, init=False)
    _ended: float = field(factory=time.monotonic, init=False)
    _took_s: float = field(default=0.0, init=False)

    def take(self, implementations: list[Participant]) -> None:
        """Look at workers' processes between two of their blocks: all in the same gap.

        After the first gaps chance decides, so that code does not know when it is looked at.
        """
        start = time.monotonic()
        by_chance = self._rng.random() * self._took_s < _SHARE * (start - self._ended)
        monitored = [(one, self._monitor_of(one)) for one in implementations]
        looked_at = [(one, monitor) for one, monitor in monitored if by_chance or self._taken[monitor] < _CENSUSES]
        if looked_at and self.setup.guards("process_census"):
            for _, monitor in looked_at:
                monitor.settle()
            for _, monitor in looked_at:
                monitor.mark()
            time.sleep(WATCH_S)
        for one, monitor in looked_at:
            seen, nvml = monitor.between_calls(), self.telemetry.nvml
            if self.setup.plan.described.files:  # where reading pages from disk is the work
                seen = evolve(seen, major_faults=None)
            one.process.census.append(evolve(seen, gpus=monitor.gpus(nvml)) if nvml else seen)
            self._taken[monitor] += 1
        self._ended = time.monotonic()
        if looked_at:
            self._took_s = self._ended - start

    def _monitor_of(self, one: Participant) -> ProcessMonitor:
        monitor = self._monitors.get(one.name)
        if monitor is None or monitor.pid != one.worker.pid:
            monitor = self._monitors[one.name] = ProcessMonitor(one.worker.pid)
        return monitor


Run = Callable[[float], tuple[int, float]]
"""Calls the implementation without pause for at least the given seconds; returns the calls and their seconds."""

# The part of the supervisor's time that the worker must have been running; otherwise idle time is in the figure.
_BUSY = 0.9
# Time for messages at the start and end of a run.
_EDGE_S = 0.1
# The number of steps from which a step's length and the idle power are taken.
_IDLE_STEPS = 5


@frozen
class EnergyPlan:
    """How long the energy of a call is measured.

    idle_s: the time before the load.
    run_s, updates: the time under load: seconds or steps of the counter, whichever is longer.
    longest_s: the maximum time of a run, and of waiting for the counter to move.
    """

    idle_s: float = 0.5
    run_s: float = 0.5
    updates: int = 10
    longest_s: float = 30.0


def measure_energy(run: Run, telemetry: Telemetry, plan: EnergyPlan) -> Energy | str:
    """Measure the energy of a call; return why there is no figure where there is none.

    An implementation runs without a pause while the supervisor polls the device's energy counter. No other work may use
    the device, and no other thread this telemetry.
    """
    read = telemetry.energy_j
    if read() is None:
        return f"no energy counter: {telemetry.lacking.get('energy_j', 'the device gave no answer')}"
    idle = _idle(read, plan)
    if idle is None:
        return f"the energy counter did not move {_IDLE_STEPS} times in {plan.longest_s:g} s"
    seconds = max(plan.run_s, (plan.updates + 2) * idle.update_s + 2 * _EDGE_S)
    if seconds > plan.longest_s:
        steps = f"{plan.updates} steps of the counter, {idle.update_s:.3g} s each"
        return f"{steps}, take longer than {plan.longest_s:g} s"
    with Watch(read) as watch:
        start = time.monotonic()
        calls, took = run(seconds)
        stop = time.monotonic()
    problem = _implausible(calls, took, stop - start)
    if problem:
        return problem
    load = power_between(watch.seen, start + max(idle.update_s, _EDGE_S), stop)
    # Under load a counter may move at another pace than idle, so the planned time may hold too few steps.
    if load is None or load.updates < plan.updates / 2:
        moved = load.updates if load else 0
        return f"the energy counter moved {moved} times under load, too few for a figure"
    if load.watts <= 0:
        return "the energy counter went backwards: the driver was reloaded, or the counter is faulty"
    return per_call(load, idle, calls, took)


def _idle(read: Callable[[], float | None], plan: EnergyPlan) -> Slope | None:
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
