"""The energy that the processor's packages and their memory took, as Intel's and AMD's counters say (RAPL)."""

import time
from pathlib import Path

from attrs import define, field

# The kernel names both vendors' zones so. `intel-rapl-mmio:*` are the same packages by another way, `psys` includes them.
_ZONES = "intel-rapl:*"
_COUNTED = ("package", "dram")
# More than any package takes: a counter that nobody read for so long that this power would have carried it around its
# range once may have come around unseen.
_MOST_W = 700.0


@define
class _Zone:
    path: Path
    range_uj: int
    last_uj: int


def wrapped_difference(before: int, after: int, range_: int) -> int:
    """What a counter of 0 to `range_` has advanced, if it came around at most once."""
    return after - before if after >= before else after + range_ - before


@define(eq=False)
class Rapl:
    """The sum of the zones, in joules from the first reading. `problem` says why there is none."""

    problem: str = ""
    _zones: list[_Zone] = field(factory=list)
    _total_uj: int = 0
    _read_s: float = 0.0

    @staticmethod
    def open(powercap: Path) -> "Rapl":
        """Find the zones. What cannot be read is told by `problem`."""
        rapl = Rapl(read_s=time.monotonic())
        try:
            for path in sorted(powercap.glob(_ZONES)):
                if (path / "name").read_text().startswith(_COUNTED):
                    rapl._zones.append(
                        _Zone(path / "energy_uj", _number(path / "max_energy_range_uj"), _number(path / "energy_uj"))
                    )
        except PermissionError:
            return Rapl(problem=f"only root may read the processor's energy ({powercap}/intel-rapl:*/energy_uj)")
        except (OSError, ValueError) as error:
            return Rapl(problem=f"the processor's energy cannot be read: {error}")
        if not rapl._zones:
            rapl.problem = (
                "this machine does not show its processor's energy (no intel-rapl zone); a virtual one never does"
            )
        return rapl

    def joules(self) -> float | None:
        """The total since it was opened; None, from then on, where it could not be followed."""
        if self.problem:
            return None
        now = time.monotonic()
        longest = min(zone.range_uj for zone in self._zones) / 1e6 / _MOST_W
        if now - self._read_s > longest:
            self.problem = (
                f"nobody read the processor's energy for {longest:.0f} s, in which its counter may come around"
            )
            return None
        self._read_s = now
        try:
            for zone in self._zones:
                found = _number(zone.path)
                self._total_uj += wrapped_difference(zone.last_uj, found, zone.range_uj)
                zone.last_uj = found
        except (OSError, ValueError) as error:
            self.problem = f"the processor's energy cannot be read any more: {error}"
            return None
        return self._total_uj / 1e6


def _number(path: Path) -> int:
    return int(path.read_text())
