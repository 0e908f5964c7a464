"""Energy of the CPU packages and their memory, from the RAPL counters of Intel and AMD."""

import time
from pathlib import Path

from attrs import define, field

# Zones of both vendors. `intel-rapl-mmio:*` are the same packages by another way, and `psys` includes them.
_ZONES = "intel-rapl:*"
_COUNTED = ("package", "dram")
# More than any package takes. A counter that was unread for its range at this power may have wrapped unseen.
_MOST_W = 700.0


@define
class _Zone:
    path: Path
    range_uj: int
    last_uj: int


def wrapped_difference(before: int, after: int, range_: int) -> int:
    """The advance of a counter of 0 to `range_` that wrapped at most once."""
    return after - before if after >= before else after + range_ - before


@define(eq=False)
class Rapl:
    """The energy of all zones since the first reading. `problem` says why it is unknown."""

    problem: str = ""
    _zones: list[_Zone] = field(factory=list)
    _total_uj: int = 0
    _read_s: float = 0.0

    @staticmethod
    def open(powercap: Path) -> "Rapl":
        """Find the zones; `problem` has the reason when they cannot be read."""
        rapl = Rapl(read_s=time.monotonic())
        try:
            for path in sorted(powercap.glob(_ZONES)):
                if (path / "name").read_text().startswith(_COUNTED):
                    rapl._zones.append(
                        _Zone(path / "energy_uj", _number(path / "max_energy_range_uj"), _number(path / "energy_uj"))
                    )
        except PermissionError:
            return Rapl(problem=f"only root may read the CPU energy ({powercap}/intel-rapl:*/energy_uj)")
        except (OSError, ValueError) as error:
            return Rapl(problem=f"the CPU energy cannot be read: {error}")
        if not rapl._zones:
            rapl.problem = "this machine does not show its CPU energy (no intel-rapl zone), as all virtual machines"
        return rapl

    def joules(self) -> float | None:
        """Joules since it was opened; None once a reading failed or came too late."""
        if self.problem:
            return None
        now = time.monotonic()
        longest = min(zone.range_uj for zone in self._zones) / 1e6 / _MOST_W
        if now - self._read_s > longest:
            self.problem = f"the CPU energy was not read for {longest:.0f} s, in which its counter may wrap"
            return None
        self._read_s = now
        try:
            for zone in self._zones:
                found = _number(zone.path)
                self._total_uj += wrapped_difference(zone.last_uj, found, zone.range_uj)
                zone.last_uj = found
        except (OSError, ValueError) as error:
            self.problem = f"the CPU energy can no longer be read: {error}"
            return None
        return self._total_uj / 1e6


def _number(path: Path) -> int:
    return int(path.read_text())
