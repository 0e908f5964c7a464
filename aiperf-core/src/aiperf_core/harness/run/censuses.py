"""Looks at the workers' processes between two of their blocks."""

import random
import time
from collections import Counter

from attrs import define, evolve, field

from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.harness.isolation.process_monitor import WATCH_S, ProcessMonitor
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.setup import Setup

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
