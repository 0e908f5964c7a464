"""Looks at the workers' processes between two of their blocks."""

import time

from attrs import define, evolve, field

from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.harness.isolation.process_monitor import WATCH_S, ProcessMonitor
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.setup import Setup

# How often a worker's process is looked at between its blocks, each round.
_CENSUSES = 4


@define(eq=False)
class Censuses:
    """Takes censuses of the workers' processes."""

    setup: Setup
    telemetry: Telemetry
    _monitors: dict[str, ProcessMonitor] = field(factory=dict, init=False)

    def take(self, implementations: list[Participant], round_number: int) -> None:
        """Look at workers' processes between two of their blocks, a few times a round: all in the same gap."""
        wanted = _CENSUSES * (1 + round_number)
        looked_at = [(one, self._monitor_of(one)) for one in implementations if len(one.process.census) < wanted]
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

    def _monitor_of(self, one: Participant) -> ProcessMonitor:
        monitor = self._monitors.get(one.name)
        if monitor is None or monitor.pid != one.worker.pid:
            monitor = self._monitors[one.name] = ProcessMonitor(one.worker.pid)
        return monitor
