"""perf: the profiler of Linux around the profiled process; hardware counters, and the symbols that took the CPU time.

Two passes: `perf stat` counts, `perf record` samples. Both start disabled, and named pipes enable them for the calls
alone (`--control` in https://man7.org/linux/man-pages/man1/perf-stat.1.html).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiperf_core.devices.sysfs import text
from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Hot, Job, Observed, Pace, Tool, Window
from aiperf_core.profiling import programs

COUNTS = "perf.stat.csv"
SAMPLES = "perf.data"
_CONTROL, _ACKNOWLEDGED = "perf.control", "perf.acknowledged"
# Software events are always there; hardware events are missing in some virtual machines.
_SOFTWARE = ("task-clock", "page-faults", "context-switches", "cpu-migrations")
_HARDWARE = ("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses")
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_REMEDY = (
    "The kernel refuses perf to this user (kernel.perf_event_paranoid is {level}). Allow it with: "
    "sudo sysctl kernel.perf_event_paranoid=1, or run as root or with CAP_PERFMON (a container: --cap-add PERFMON)"
)
_REFUSED = ("perf_event_paranoid", "No permission to enable", "Access to performance monitoring")
_LEAST_SHARE = 0.001
_NO_NAME = "(code without a name)"


class Perf(Tool):
    """perf of Linux."""

    # Switching counters on and off takes tens of microseconds; a window must be much longer.
    pace = Pace(50, 2.0, window_s=0.02)

    def unavailable(self) -> str | None:
        """The program or the right to count is missing."""
        perf = programs.find("perf")
        if perf is None:
            return "perf is not installed; on Debian and Ubuntu: apt install linux-perf, or linux-tools-$(uname -r)"
        try:
            programs.output([perf, "stat", "-x", ";", "-e", "task-clock", "true"])
        except AiperfError as error:
            level = text(_PARANOID)
            return _REMEDY.format(level=level) if level not in ("", "-1", "0", "1") else f"{error}"
        return None

    def commands(self, argv: Sequence[str], folder: Path) -> list[list[str]]:
        """Perf starts the process twice: to count, and to take samples."""
        for name in (_CONTROL, _ACKNOWLEDGED):
            os.mkfifo(folder / name)
        perf, control = programs.find("perf") or "perf", f"fifo:{folder / _CONTROL},{folder / _ACKNOWLEDGED}"
        switched = ["--delay=-1", f"--control={control}"]
        events = dict.fromkeys((*_SOFTWARE, *_HARDWARE, *self.job.metrics))
        return [
            [perf, "stat", "-x", ";", f"--output={folder / COUNTS}", *switched, "-e", ",".join(events), "--", *argv],
            [perf, "record", "--quiet", f"--output={folder / SAMPLES}", *switched, "--", *argv],
        ]

    def window(self, folder: Path) -> "PerfWindow":
        """Count during the calls only."""
        return PerfWindow(folder)

    def remedy(self, log: str) -> str | None:
        """The kernel may refuse the counters to this user."""
        return _REMEDY.format(level=text(_PARANOID) or "?") if any(refused in log for refused in _REFUSED) else None

    def summarise(self, folder: Path, calls: int) -> Observed:
        """Read the counts, and make perf report its samples."""
        perf = programs.find("perf") or "perf"
        try:
            counts = (folder / COUNTS).read_text()
        except OSError:
            raise programs.unreadable(folder / COUNTS, "perf") from None
        report = [perf, "report", f"--input={folder / SAMPLES}", "--stdio", "--no-children", "--field-separator=;"]
        samples = programs.output([*report, "--fields=overhead,sample,dso,symbol"])
        return read(counts, samples, self.job, calls, programs.version(perf))


class PerfWindow(Window):
    """Enables and disables perf through its named pipes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._control = self._answers = -1

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Keep the pipes open."""
        self._control = os.open(self._folder / _CONTROL, os.O_WRONLY)
        self._answers = os.open(self._folder / _ACKNOWLEDGED, os.O_RDONLY)
        try:
            yield
        finally:
            os.close(self._control)
            os.close(self._answers)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Enable perf, then disable it."""
        self._tell(b"enable\n")
        try:
            yield
        finally:
            self._tell(b"disable\n")

    def _tell(self, command: bytes) -> None:
        """Send a command; perf answers with a short line when it is done."""
        os.write(self._control, command)
        if not os.read(self._answers, 64):
            raise AiperfError("perf ended during the profile. Its output is in the log; profile again.")


def read(counts: str, samples: str, job: Job, calls: int, version: str) -> Observed:
    """Read the output of `perf stat -x ';'` and `perf report`. Raises `AiperfError` when nothing was counted."""
    counted, refused = _counts(counts)
    if not counted:
        raise AiperfError("perf counted nothing. Its output is in the log; profile again.")
    missing = dict.fromkeys(refused, "the CPU does not count it here, as in many virtual machines")
    hot = _symbols(samples, counted.get("task-clock", 0.0) / calls)
    if not hot:
        missing["symbols"] = "perf record took no sample; the calls may be too short"
    return Observed(
        version=version,
        hot=hot,
        figures=_figures(counted, job.metrics, calls),
        missing=missing | {"idle gaps": "perf sees no device", "bytes copied": "perf sees no device"},
        files=[COUNTS, SAMPLES],
    )


def _counts(output: str) -> tuple[dict[str, float], list[str]]:
    """The counts by event, times in seconds, and the events that could not be counted."""
    counted, refused = {}, []
    for line in output.splitlines():
        cells = line.split(";")
        if line.startswith("#") or len(cells) < 5:
            continue
        value, unit, event = cells[0], cells[1], cells[2].partition(":")[0]
        if value.startswith("<"):
            refused.append(event)
        else:
            counted[event] = float(value) * (1e-3 if unit == "msec" else 1.0)
    return counted, refused


def _figures(counted: dict[str, float], chosen: Sequence[str], calls: int) -> dict[str, float]:
    names = {"task-clock": "task_s", "instructions": "instructions", "cycles": "cycles", "cache-misses": "cache_misses"}
    names |= {one: one.replace("-", "_") for one in ("page-faults", "context-switches", "cpu-migrations")}
    names |= {one: one for one in chosen if one not in (*names, *_HARDWARE)}
    found = {ours: counted[event] / calls for event, ours in names.items() if event in counted}
    shares = {
        "ipc": ("instructions", "cycles"),
        "cache_miss_share": ("cache-misses", "cache-references"),
        "branch_miss_share": ("branch-misses", "branches"),
    }
    for name, (part, whole) in shares.items():
        if counted.get(whole) and part in counted:
            found[name] = counted[part] / counted[whole]
    return found


def _symbols(report: str, seconds: float) -> list[Hot]:
    """The symbols with at least a thousandth of the samples, each with its share of `seconds` of CPU time."""
    shares: dict[tuple[str, str], float] = {}
    for line in report.splitlines():
        cells = [cell.strip() for cell in line.split(";", 3)]
        if line.startswith("#") or len(cells) != 4 or not cells[0].endswith("%"):
            continue
        kind, _, name = cells[3].partition(" ")
        where = "kernel" if kind == "[k]" else cells[2]
        # Of stripped libraries perf has addresses only, one on each line.
        name = _NO_NAME if name.startswith("0x") else name
        shares[name or kind, where] = shares.get((name or kind, where), 0.0) + float(cells[0].rstrip("%")) / 100
    found = [
        Hot(name=name, kind="symbol", seconds=share * seconds, share=share, by=where)
        for (name, where), share in shares.items()
        if share >= _LEAST_SHARE
    ]
    return sorted(found, key=lambda one: -(one.share or 0.0))
