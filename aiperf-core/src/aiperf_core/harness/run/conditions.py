"""The state of the machine beside the samples: read after each block, and the load over a whole round."""

import time
from collections.abc import Iterable

from attrs import define, field

from aiperf_core.devices.cpu_telemetry import CpuLoad
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run.participant import Participant
from aiperf_core.measurements import DeviceState, Reading
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
