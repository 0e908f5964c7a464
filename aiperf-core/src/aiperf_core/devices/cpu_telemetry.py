"""Telemetry of the CPUs from /proc and /sys of Linux."""

import re
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from attrs import define

from aiperf_core.devices.control_groups import cpu_quotas
from aiperf_core.devices.rapl import Rapl
from aiperf_core.devices.sysfs import integer, text, usable_cpu_folders
from aiperf_core.measurements import Reading

# The kernel counts time in ticks of 10 ms, rounded for each process. A share over a shorter time would be noise.
SHARES_AFTER_S = 0.5
# Each clock costs the read of a file; this number of CPUs stands for all.
_CLOCKS = 16
_PACKAGE_SENSORS = ("coretemp", "k10temp", "zenpower")


@define
class _Times:
    """Ticks of all CPUs since the machine started, and those of the run's processes by pid."""

    at_s: float
    busy: int
    steal: int
    total: int
    own: dict[int, int]


class CpuLoad:
    """The load of all processors between two looks, from the kernel's counts of ticks. `proc` is /proc."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._times = self._now(())
        self.known = self._times is not None

    def begin(self, own_pids: Iterable[int]) -> None:
        """Look first, at these processes of the run."""
        self._times = self._now(own_pids)

    def shares(self, own_pids: Collection[int]) -> tuple[float | None, float | None, float | None]:
        """The shares of CPU time since the last answer: busy, of this run, and stolen by the hypervisor."""
        before = self._times
        if before is not None and time.monotonic() - before.at_s < SHARES_AFTER_S:
            return None, None, None
        now = self._now(own_pids)
        self._times = now
        if before is None or now is None or now.total <= before.total:
            return None, None, None
        total = now.total - before.total
        own: int | None = None
        # The work of a new process since the last answer is unknown.
        if own_pids and now.own.keys() <= before.own.keys():
            own = sum(max(0, ticks - before.own[pid]) for pid, ticks in now.own.items())
        return (
            _share(now.busy - before.busy, total),
            None if own is None else _share(own, total),
            _share(now.steal - before.steal, total),
        )

    def _now(self, own_pids: Iterable[int]) -> _Times | None:
        match = re.match(r"cpu +(.*)", text(self._proc / "stat"))
        if match is None:
            return None
        # `user` and `nice` contain the time of guests of this machine.
        user, nice, system, idle, iowait, irq, softirq, steal = ([*map(int, match[1].split()), *([0] * 8)])[:8]
        busy = user + nice + system + irq + softirq
        own = {pid: ticks for pid in own_pids if (ticks := self._ticks(pid)) is not None}
        return _Times(time.monotonic(), busy, steal, busy + idle + iowait + steal, own)

    def _ticks(self, pid: int) -> int | None:
        """The CPU time of a process in ticks, ended threads included."""
        # After the name, in parentheses, come the state, ten other fields, and user and system time.
        fields = text(self._proc / str(pid) / "stat").rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) if len(fields) > 12 else None


class CpuTelemetry:
    """The CPUs of this machine. `root` holds /proc and /sys."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.lacking: dict[str, str] = dict.fromkeys(("sm_clock_hz", "memory_clock_hz", "other_pids"), "of GPUs only")
        self._proc, system = root / "proc", root / "sys"
        self._rapl = Rapl.open(system / "class/powercap")
        cpus = usable_cpu_folders(system / "devices/system/cpu")
        self._clocks = _clock_files(cpus)
        self._clocks_in_cpuinfo = not self._clocks and self._counts_cycles()
        self._sensors = _sensors(system / "class")
        self._throttles = [
            file
            for cpu in cpus
            for file in (cpu / "thermal_throttle/core_throttle_count", cpu / "thermal_throttle/package_throttle_count")
            if integer(file) is not None
        ]
        self._quotas = _quota_files(root)
        self._limits = self._limit_counts()
        self._load = CpuLoad(self._proc)
        self.lacking["power_w"] = "the processor counts energy, not power"
        if not self._clocks and not self._clocks_in_cpuinfo:
            self.lacking["cpu_clock_hz"] = "this machine does not show the clock its processors run at"
        if not self._sensors:
            self.lacking["temperature_c"] = "this machine shows no temperature of its processor"
        if not self._throttles:
            self.lacking["throttled"] = "this machine does not count thermal throttling"
            if not self._quotas:
                self.lacking["throttled"] += ", and there is no limit of processor time to watch"
        if not self._load.known:
            self.lacking |= dict.fromkeys(("cpu_busy", "cpu_own", "steal"), "/proc/stat cannot be read")
        self.energy_j()

    def read(self, own_pids: Collection[int] = (), *, light: bool = False) -> Reading:
        """Read the CPUs. A light reading has energy and throttling only."""
        at = time.monotonic()
        throttled = self._throttled()
        if light:
            return Reading(at_s=at, energy_j=self.energy_j(), throttled=throttled)
        busy, own, steal = self._load.shares(own_pids)
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
        """Energy in joules of all packages and their memory since this was opened, of all processes."""
        found = self._rapl.joules()
        if self._rapl.problem:
            self.lacking["energy_j"] = self._rapl.problem
        return found

    @property
    def nvml(self) -> None:
        """None: CPUs have no NVML."""
        return None

    def power_w(self) -> float | None:
        """None: CPUs count energy, not power."""
        return None

    def close(self) -> None:
        """Do nothing: no file stays open."""

    # --- clocks

    def _counts_cycles(self) -> bool:
        # Without these counters and without cpufreq, /proc/cpuinfo always shows the nominal clock.
        return re.search(r"^flags\s*:.*\baperfmperf\b", text(self._proc / "cpuinfo"), re.MULTILINE) is not None

    def clock_hz(self) -> float | None:
        """The clock of the fastest CPU, in hertz."""
        if self._clocks_in_cpuinfo:
            clocks = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text(self._proc / "cpuinfo"), re.MULTILINE)
            return max((float(mhz) * 1e6 for mhz in clocks), default=None)
        return max(_scaled(self._clocks, 1e3), default=None)

    # --- throttling

    def _limit_counts(self) -> tuple[int, int]:
        hot = sum(integer(file) or 0 for file in self._throttles)
        return hot, sum(_quota_count(file) or 0 for file in self._quotas)

    def _throttled(self) -> tuple[str, ...] | None:
        if not (self._throttles or self._quotas):
            return None
        before, self._limits = self._limits, self._limit_counts()
        names = ("cpu_thermal", "cpu_quota")
        return tuple(name for name, old, new in zip(names, before, self._limits, strict=True) if new > old)


def _clock_files(cpus: list[Path]) -> list[Path]:
    found = [file for cpu in cpus if integer(file := cpu / "cpufreq/scaling_cur_freq") is not None]
    return found[:: -(-len(found) // _CLOCKS) or 1]


def _sensors(folder: Path) -> list[Path]:
    """The files with the temperature of each package, in thousandths of a degree Celsius."""
    zones = [
        zone / "temp"
        for zone in sorted((folder / "thermal").glob("thermal_zone*"))
        if text(zone / "type") == "x86_pkg_temp"
    ]
    chips = [
        chip / "temp1_input"  # the package (Intel), the control temperature (AMD)
        for chip in sorted((folder / "hwmon").glob("hwmon*"))
        if text(chip / "name") in _PACKAGE_SENSORS
    ]
    return [file for file in zones or chips if integer(file) is not None]


def _quota_files(root: Path) -> list[Path]:
    """The `cpu.stat` of each control group whose processor time is limited, which counts how often it was used up."""
    try:
        files = [folder / "cpu.stat" for folder, _ in cpu_quotas(root)]
    except (LookupError, OSError):
        return []
    return [file for file in files if _quota_count(file) is not None]


def _quota_count(file: Path) -> int | None:
    match = re.search(r"^nr_throttled (\d+)$", text(file), re.MULTILINE)
    return int(match[1]) if match else None


def _share(part: int, total: int) -> float:
    # Idle counters may step back a little, and the ticks of a process may be accounted later.
    return min(1.0, max(0.0, part / total))


def _scaled(files: list[Path], factor: float) -> list[float]:
    return [value * factor for file in files if (value := integer(file)) is not None]
