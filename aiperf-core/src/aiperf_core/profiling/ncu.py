"""ncu: Nsight Compute around the profiled process; counters of each kernel, which it replays to read them all.

`ncu --import REPORT --csv --page raw` prints a line of names, a line of units, and a line for each kernel. The names:
https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-reference.
"""

import csv
import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from aiperf_core.devices import sysfs
from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Hot, Job, Observed, Pace, Tool, Window
from aiperf_core.profiling import programs
from aiperf_core.profiling.figures import STALL

REPORT = "profile.ncu-rep"
# Sections rather than metrics: ncu knows the counters of a GPU for each section.
_SECTIONS = (
    "SpeedOfLight",
    "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis",
    "LaunchStats",
    "Occupancy",
    "WarpStateStats",
    "InstructionStats",
)
_DURATION = "gpu__time_duration.sum"
_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio"
_METRICS = (
    _DURATION,
    "dram__bytes.sum",
    "dram__bytes.sum.per_second",
    _SECTORS.format("ld"),
    _SECTORS.format("st"),
    "l1tex__data_bank_conflicts_pipe_lsu.sum",
)
# The names of ncu for our figures; the first in a report counts.
_NAMES = {
    "dram_bytes": ("dram__bytes.sum",),
    "dram_bytes_per_s": ("dram__bytes.sum.per_second",),
    "dram_share": (
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "sm_share": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "l1_hit": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hit": ("lts__t_sector_hit_rate.pct",),
    "sectors_per_load": (_SECTORS.format("ld"),),
    "sectors_per_store": (_SECTORS.format("st"),),
    "bank_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu.sum",),
    "tensor_share": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    "warp_instructions": ("smsp__inst_executed.sum", "sm__inst_executed.sum"),
    "occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "occupancy_limit": ("sm__maximum_warps_per_active_cycle_pct",),
    "registers": ("launch__registers_per_thread",),
    "shared_bytes": ("launch__shared_mem_per_block",),
}
# A call has the sum of these over its kernels; of all other figures the mean, weighted by time.
_SUMS = frozenset({"dram_bytes", "bank_conflicts", "warp_instructions"})
_LIMITERS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
_STALLED = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio")
_SCALES = {"nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1, "s": 1}
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_REMEDY = (
    "The driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM). Run as root or with "
    "CAP_SYS_ADMIN, or have an administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0 "
    "(https://developer.nvidia.com/ERR_NVGPUCTRPERM). --tool torch and nsys need no counters."
)
_ADMIN_CAPABILITY = 21  # CAP_SYS_ADMIN


class Ncu(Tool):
    """Nsight Compute."""

    # A call is replayed, once for each group of counters.
    pace = Pace(1, math.inf, clocked=False)

    def unavailable(self) -> str | None:
        """The program, the GPU or the right to read its counters is missing."""
        if missing := programs.missing_nsight("ncu", "Compute", self.job.device):
            return missing
        return _REMEDY if _admins_only(Path("/proc/driver/nvidia/params")) and not _is_admin() else None

    def commands(self, argv: Sequence[str], folder: Path) -> list[list[str]]:
        """Ncu starts the process. It leaves the clocks alone, and the caches as the benchmark declares them."""
        chosen = [f"--metrics={','.join((_DURATION, *self.job.metrics))}"]
        if not self.job.metrics:
            chosen = [*(f"--section={one}" for one in _SECTIONS), f"--metrics={','.join(_METRICS)}"]
        return [
            [
                programs.find("ncu") or "ncu",
                "--profile-from-start=off",
                "--nvtx",
                "--clock-control=none",
                f"--cache-control={'all' if self.job.cache == 'cold' else 'none'}",
                *chosen,
                "--force-overwrite",
                f"--export={folder / Path(REPORT).stem}",
                *argv,
            ]
        ]

    def window(self, folder: Path) -> "NcuWindow":
        """Record each call by itself: flushes must not be replayed."""
        return NcuWindow()

    def remedy(self, log: str) -> str | None:
        """The driver may refuse the counters to this user."""
        return _REMEDY if "ERR_NVGPUCTRPERM" in log else None

    def summarise(self, folder: Path, calls: int) -> Observed:
        """Make ncu print its report as CSV, and read it."""
        report, ncu = folder / REPORT, programs.find("ncu") or "ncu"
        if not report.is_file():
            raise programs.unreadable(report, "ncu")
        text = programs.output([ncu, f"--import={report}", "--csv", "--page=raw", "--print-units=base"])
        return read(text, self.job, calls, programs.version(ncu))


class NcuWindow(Window):
    """Records from cudaProfilerStart to cudaProfilerStop, around each call."""

    def call(self) -> AbstractContextManager[None]:
        """Record one call."""
        return programs.cuda_range()


def _admins_only(parameters: Path) -> bool:
    return "RmProfilingAdminOnly: 1" in sysfs.text(parameters)


def _is_admin() -> bool:
    status = Path("/proc/self/status").read_text()
    held = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    return os.geteuid() == 0 or bool(held >> _ADMIN_CAPABILITY & 1)


def read(text: str, job: Job, calls: int, version: str) -> Observed:
    """Read the raw page. Raises `AiperfError` when it has no kernel."""
    table = [row for row in csv.reader(text.splitlines()) if len(row) > 1]
    start = next((index for index, row in enumerate(table) if "Kernel Name" in row), len(table))
    if not table[start + 2 :]:
        raise AiperfError(
            f"ncu recorded no kernel of {job.label!r}: the work may run on no GPU. See what it does with: --tool torch"
        )
    names, unit = table[start], table[start + 1]
    by_name: dict[str, list[dict[str, float]]] = {}
    for row in table[start + 2 :]:
        by_name.setdefault(row[names.index("Kernel Name")], []).append(_numbers(names, unit, row))
    total = sum(one.get(_DURATION, 0.0) for ones in by_name.values() for one in ones)
    hot = []
    for name, ones in by_name.items():
        seconds = sum(one.get(_DURATION, 0.0) for one in ones)
        hot.append(
            Hot(
                name=name,
                kind="kernel",
                count=len(ones) / calls,
                seconds=seconds / calls,
                share=seconds / total if total else 0.0,
                metrics=_metrics(ones, job.metrics, len(ones)),
            )
        )
    hot.sort(key=lambda one: -(one.seconds or 0.0))
    every = [one for ones in by_name.values() for one in ones]
    longest = max(every, key=lambda one: one.get(_DURATION, 0.0))
    figures = {"busy_s": total / calls, "kernels": len(every) / calls, **_metrics(every, job.metrics, calls)}
    return Observed(
        version=version,
        hot=hot,
        figures=figures,
        words=_limiter(longest),
        missing=_missing(figures, job) | {"idle gaps": "ncu runs kernels one by one; --tool nsys or torch sees gaps"},
        files=[REPORT],
        notes=[
            "ncu runs each kernel several times, alone, and "
            + ("with cold caches." if job.cache == "cold" else "with the caches as the kernel before left them.")
        ],
    )


def _numbers(names: list[str], unit: list[str], row: list[str]) -> dict[str, float]:
    """The numbers of a line in SI units; shares from 0 to 1."""
    found = {}
    for name, of, cell in zip(names, unit, row, strict=False):
        try:
            value = float(cell.replace(",", ""))
        except ValueError:
            continue
        if math.isfinite(value):
            found[name] = value * _scale(of)
    return found


def _scale(unit: str) -> float:
    if unit == "%":
        return 0.01
    head = unit.split("/")[0]
    if head in _SCALES:
        return _SCALES[head]
    scale = _PREFIXES[head[0]] if head[:1] in _PREFIXES and head.endswith("byte") else 1.0
    return scale / (_SCALES[unit.split("/")[1]] if unit.split("/")[1:] and unit.split("/")[1] in _SCALES else 1.0)


def _metrics(kernels: Sequence[dict[str, float]], chosen: tuple[str, ...], count: int) -> dict[str, float]:
    """Figures of `kernels`; sums are divided by `count`. Chosen metrics without a name of ours keep the name of ncu."""
    ours = {theirs: name for name, names in _NAMES.items() for theirs in names}
    found = {}
    for name, names in _NAMES.items():
        theirs = next((one for one in names if any(one in kernel for kernel in kernels)), None)
        if theirs:
            found[name] = _sum(kernels, theirs) / count if name in _SUMS else _mean(kernels, theirs)
    for metric in chosen:
        if metric not in ours and any(metric in kernel for kernel in kernels):
            found[metric] = _sum(kernels, metric) / count if metric.endswith(".sum") else _mean(kernels, metric)
    head, tail = _STALLED
    for metric in sorted({one for kernel in kernels for one in kernel if one.startswith(head) and one.endswith(tail)}):
        found[STALL + metric.removeprefix(head).removesuffix(tail)] = _mean(kernels, metric)
    return found


def _sum(kernels: Sequence[dict[str, float]], metric: str) -> float:
    return sum(one.get(metric, 0.0) for one in kernels)


def _mean(kernels: Sequence[dict[str, float]], metric: str) -> float:
    """The mean, weighted by the time of the kernels."""
    having = [one for one in kernels if metric in one]
    total = _sum(having, _DURATION)
    return sum(one[metric] * one.get(_DURATION, 0.0) for one in having) / total if total else having[0][metric]


def _limiter(kernel: dict[str, float]) -> dict[str, str]:
    """The resources that limit the occupancy of the longest kernel: those that allow the fewest blocks."""
    blocks = {name: kernel[metric] for name, metric in _LIMITERS.items() if metric in kernel}
    if not blocks:
        return {}
    least = min(blocks.values())
    return {"occupancy_limiter": " and ".join(name for name, one in blocks.items() if one == least)}


def _missing(figures: dict[str, float], job: Job) -> dict[str, str]:
    if job.metrics:
        return {}
    labels = {"dram_bytes_per_s": "DRAM rate", "occupancy": "occupancy", "tensor_share": "tensor pipe"}
    return {label: "this GPU has no such counter" for name, label in labels.items() if name not in figures}
