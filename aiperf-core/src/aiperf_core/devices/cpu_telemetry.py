"""The state of the processors, as the Linux kernel tells it in /proc and /sys."""

import os
import re
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from attrs import define

from aiperf_core.devices.rapl import Rapl
from aiperf_core.measurements import Reading

# The kernel counts time in ticks of 10 ms, rounded for each process: over less than this, a share of a machine with few
# processors would be noise. It waits for a later reading.
SHARES_AFTER_S = 0.5
# Each clock costs a file; this many of the processors stand for all.
_CLOCKS = 16
_PACKAGE_SENSORS = ("coretemp", "k10temp", "zenpower")


@define
class _Times:
    """Ticks of all processors since the machine started, and those of our own processes by pid."""

    at_s: float
    busy: int
    steal: int
    total: int
    own: dict[int, int]


class CpuTelemetry:
    """The processors of this machine. `root` is where /proc and /sys are found."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.lacking: dict[str, str] = dict.fromkeys(("sm_clock_hz", "memory_clock_hz", "other_pids"), "of GPUs only")
        self._proc, system = root / "proc", root / "sys"
        self._rapl = Rapl.open(system / "class/powercap")
        cpus = _allowed(system / "devices/system/cpu")
        self._clocks = _clock_files(cpus)
        self._clocks_in_cpuinfo = not self._clocks and self._counts_cycles()
        self._sensors = _sensors(system / "class")
        self._throttles = [
            file
            for cpu in cpus
            for file in (cpu / "thermal_throttle/core_throttle_count", cpu / "thermal_throttle/package_throttle_count")
            if _integer(file) is not None
        ]
        self._quota = self._find_quota(system / "fs/cgroup")
        self._limits = self._limit_counts()
        self._times = self._now(())
        self.lacking["power_w"] = "the processor counts energy, not power"
        if not self._clocks and not self._clocks_in_cpuinfo:
            self.lacking["cpu_clock_hz"] = "this machine does not show the clock its processors run at"
        if not self._sensors:
            self.lacking["temperature_c"] = "this machine shows no temperature of its processor"
        if not self._throttles:
            self.lacking["throttled"] = "this machine does not count thermal throttling"
            if self._quota is None:
                self.lacking["throttled"] += ", and there is no limit of processor time to watch"
        if self._times is None:
            self.lacking |= dict.fromkeys(("cpu_busy", "cpu_own", "steal"), "/proc/stat cannot be read")
        self.energy_j()

    def read(self, own_pids: Collection[int] = (), *, light: bool = False) -> Reading:
        """The processors now. A light reading has energy and throttling only."""
        at = time.monotonic()
        throttled = self._throttled()
        if light:
            return Reading(at_s=at, energy_j=self.energy_j(), throttled=throttled)
        busy, own, steal = self._shares(own_pids)
        return Reading(
            at_s=at,
            temperature_c=max(_scaled(self._sensors, 1e-3), default=None),
            energy_j=self.energy_j(),
            throttled=throttled,
            cpu_clock_hz=self.clock_hz(),
            cpu_busy=busy,
            cpu_own=own,
            steal=steal,
        )

    def energy_j(self) -> float | None:
        """Energy of all packages and their memory, whoever caused it, since this was opened."""
        found = self._rapl.joules()
        if self._rapl.problem:
            self.lacking["energy_j"] = self._rapl.problem
        return found

    @property
    def nvml(self) -> None:
        """Of GPUs only."""
        return None

    def power_w(self) -> float | None:
        """None: the processor counts energy."""
        return None

    def close(self) -> None:
        """Nothing is kept open."""

    # --- clocks

    def _counts_cycles(self) -> bool:
        # Without these counters, and without cpufreq, /proc/cpuinfo repeats the nominal clock whatever happens.
        return re.search(r"^flags\s*:.*\baperfmperf\b", _text(self._proc / "cpuinfo"), re.MULTILINE) is not None

    def clock_hz(self) -> float | None:
        """The clock of the fastest processor."""
        if self._clocks_in_cpuinfo:
            told = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _text(self._proc / "cpuinfo"), re.MULTILINE)
            return max((float(one) * 1e6 for one in told), default=None)
        return max(_scaled(self._clocks, 1e3), default=None)

    # --- what holds the processors back

    def _find_quota(self, cgroups: Path) -> Path | None:
        """The file with the count of how often this process's group used up its processor time; version 2 only."""
        match = re.search(r"^0::(.*)$", _text(self._proc / "self/cgroup"), re.MULTILINE)
        file = cgroups / match[1].lstrip("/") / "cpu.stat" if match else None
        return file if file and _quota_count(file) is not None else None

    def _limit_counts(self) -> tuple[int, int]:
        hot = sum(_integer(file) or 0 for file in self._throttles)
        return hot, (_quota_count(self._quota) or 0) if self._quota else 0

    def _throttled(self) -> tuple[str, ...] | None:
        if not self._throttles and self._quota is None:
            return None
        before, self._limits = self._limits, self._limit_counts()
        names = ("cpu_thermal", "cpu_quota")
        return tuple(name for name, old, new in zip(names, before, self._limits, strict=True) if new > old)

    # --- who is busy

    def _shares(self, own_pids: Collection[int]) -> tuple[float | None, float | None, float | None]:
        """Busy, our own part of it, and stolen, since the last time this had an answer."""
        before = self._times
        if before is not None and time.monotonic() - before.at_s < SHARES_AFTER_S:
            return None, None, None
        now = self._now(own_pids)
        self._times = now
        if before is None or now is None or now.total <= before.total:
            return None, None, None
        total = now.total - before.total
        own: int | None = None
        # Of a process that is named for the first time, nobody knows what it worked since then.
        if own_pids and now.own.keys() <= before.own.keys():
            own = sum(max(0, ticks - before.own[pid]) for pid, ticks in now.own.items())
        return (
            _share(now.busy - before.busy, total),
            None if own is None else _share(own, total),
            _share(now.steal - before.steal, total),
        )

    def _now(self, own_pids: Iterable[int]) -> _Times | None:
        match = re.match(r"cpu +(.*)", _text(self._proc / "stat"))
        if match is None:
            return None
        # Time given to guests of this machine is contained in `user` and `nice`.
        user, nice, system, idle, iowait, irq, softirq, steal = ([*map(int, match[1].split()), *([0] * 8)])[:8]
        busy = user + nice + system + irq + softirq
        own = {pid: ticks for pid in own_pids if (ticks := self._ticks(pid)) is not None}
        return _Times(time.monotonic(), busy, steal, busy + idle + iowait + steal, own)

    def _ticks(self, pid: int) -> int | None:
        """The processor time of a process, of all threads that it has or had."""
        # The name, in parentheses, may contain anything. Then come the state and ten more, then user and system time.
        fields = _text(self._proc / str(pid) / "stat").rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) if len(fields) > 12 else None


def _allowed(folder: Path) -> list[Path]:
    """The folders of the processors that this process may run on."""
    return [path for cpu in sorted(os.sched_getaffinity(0)) if (path := folder / f"cpu{cpu}").is_dir()]


def _clock_files(cpus: list[Path]) -> list[Path]:
    found = [file for cpu in cpus if _integer(file := cpu / "cpufreq/scaling_cur_freq") is not None]
    return found[:: -(-len(found) // _CLOCKS) or 1]


def _sensors(folder: Path) -> list[Path]:
    """The files that give the temperature of each package, in thousandths of a degree."""
    zones = [
        zone / "temp"
        for zone in sorted((folder / "thermal").glob("thermal_zone*"))
        if _text(zone / "type").strip() == "x86_pkg_temp"
    ]
    chips = [
        chip / "temp1_input"  # the package (Intel), the control temperature (AMD)
        for chip in sorted((folder / "hwmon").glob("hwmon*"))
        if _text(chip / "name").strip() in _PACKAGE_SENSORS
    ]
    return [file for file in zones or chips if _integer(file) is not None]


def _quota_count(file: Path) -> int | None:
    match = re.search(r"^nr_throttled (\d+)$", _text(file), re.MULTILINE)
    return int(match[1]) if match else None


def _share(part: int, total: int) -> float:
    # Counters of idle time may step back a little, and ticks of one process be accounted a moment later.
    return min(1.0, max(0.0, part / total))


def _scaled(files: list[Path], factor: float) -> list[float]:
    return [value * factor for file in files if (value := _integer(file)) is not None]


def _integer(file: Path) -> int | None:
    try:
        return int(_text(file))
    except ValueError:
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
