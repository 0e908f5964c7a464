"""The state of the machine beside the samples: read after each block, from this machine's devices."""

from attrs import define, field

from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.telemetry import Telemetry
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.stats.conditions import throttled_blocks

# Every so many blocks a reading is complete; the others leave out what is slow to read.
_FULL_READING = 8


@define(eq=False)
class Conditions:
    """Telemetry of the devices of a run: the first one's, and those of the other ranks of this machine by rank."""

    kind: DeviceKind
    telemetry: Telemetry = field(init=False)
    _of_ranks: dict[int, Telemetry] = field(factory=dict, init=False)
    _blocks: int = field(default=0, init=False)

    @telemetry.default
    def _opened(self) -> Telemetry:
        return self.kind.telemetry()

    def read(self, one: ImplementationRun, own_pids: list[int]) -> None:
        """Add a reading after a block of an implementation, and mark the block where the clocks were held down."""
        self._blocks += 1
        light = self._blocks % _FULL_READING != 0
        one.readings.append(self.telemetry.read(own_pids, light=light))
        for rank, telemetry in self._other_ranks(one).items():
            one.rank_readings.setdefault(rank, []).append(telemetry.read(own_pids, light=light))
        if any(throttled_blocks([readings[-1] for readings in (one.readings, *one.rank_readings.values())])):
            one.mark_throttled()

    def _other_ranks(self, one: ImplementationRun) -> dict[int, Telemetry]:
        if isinstance(one.child, RankGroup):
            for rank in one.child.numbers_here[1:]:
                if rank not in self._of_ranks and (telemetry := self.kind.rank_telemetry(rank)) is not None:
                    self._of_ranks[rank] = telemetry
        return self._of_ranks

    def close(self) -> None:
        """Let go of the drivers and files."""
        for telemetry in (self.telemetry, *self._of_ranks.values()):
            telemetry.close()
