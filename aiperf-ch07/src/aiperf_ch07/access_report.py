"""What Nsight Compute counts of one call of an implementation: sectors per request, hit rates, bank conflicts."""

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Sequence

from attrs import frozen

from aiperf_core.errors import KernelError, SkipError

# Our name, Nsight Compute's name, and what it says.
METRICS = (
    ("load_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "global loads, one a warp and instruction"),
    ("load_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sectors of 32 bytes that those loads touch"),
    ("store_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "global stores, one a warp and instruction"),
    ("store_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sectors that those stores touch"),
    ("l1_hit_percent", "l1tex__t_sector_hit_rate.pct", "of sectors, found in L1"),
    ("l2_hit_percent", "lts__t_sector_hit_rate.pct", "of sectors, found in L2"),
    ("load_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "extra rounds of shared loads"),
    ("store_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "extra rounds of shared stores"),
    ("dram_read_bytes", "dram__bytes_read.sum", "bytes that came from memory"),
    ("dram_written_bytes", "dram__bytes_write.sum", "bytes that went to memory"),
    ("instructions", "smsp__inst_issued.sum", "instructions issued, one a warp"),
)
TIMEOUT_S = 600


@frozen
class KernelAccess:
    """The counters of one launch, by our names; None where this GPU or this version has no such counter."""

    implementation: str
    kernel: str
    counters: dict[str, float | None]

    @property
    def sectors_per_load(self) -> float | None:
        """Sectors per request: 4 where 32 lanes read 4 neighbouring bytes each, 32 where no two lanes share one."""
        return _ratio(self.counters.get("load_sectors"), self.counters.get("load_requests"))

    @property
    def sectors_per_store(self) -> float | None:
        """The same of stores."""
        return _ratio(self.counters.get("store_sectors"), self.counters.get("store_requests"))


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def command(ncu: str, target: str, module: str, implementation: str, params: Sequence[str]) -> list[str]:
    """The command line of a report. It leaves the clocks alone: locking needs rights, and counters work without."""
    metrics = ",".join(metric for _, metric, _ in METRICS)
    options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--metrics", metrics]
    # Only what the implementation launches, not what makes its inputs.
    options += ["--profile-from-start", "off"]
    return [ncu, *options, sys.executable, "-m", "aiperf_ch07.one_call", target, module, implementation, *params]


def report(target: str, module: str, implementation: str, params: Sequence[str]) -> list[KernelAccess]:
    """Run one call under Nsight Compute. Raises `SkipError` where it is missing and `KernelError` with what it says."""
    ncu = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if ncu is None:
        raise SkipError(
            "needs Nsight Compute: no 'ncu' on the path or in /usr/local/cuda/bin; it comes with the CUDA toolkit"
        )
    line = command(ncu, target, module, implementation, params)
    try:
        run = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise KernelError(f"ncu gave no answer within {TIMEOUT_S} s for {target}:{implementation}") from None
    if "ERR_NVGPUCTRPERM" in run.stdout + run.stderr:
        raise KernelError(
            "this user may not read the GPU's counters (ERR_NVGPUCTRPERM); let an administrator load the driver with "
            "NVreg_RestrictProfilingToAdminUsers=0, or run as root"
        )
    if run.returncode:
        raise KernelError(f"ncu failed for {target}:{implementation}: {(run.stderr or run.stdout).strip()[-500:]}")
    return parse(run.stdout, implementation)


def parse(text: str, implementation: str) -> list[KernelAccess]:
    """Read ncu's raw page: a header, a line of units, and a line for each launch, after whatever was printed before."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise KernelError(f"ncu saw no kernel of {implementation!r}")
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))[1:]
    return [
        KernelAccess(
            implementation, row["Kernel Name"], {name: _number(row.get(metric)) for name, metric, _ in METRICS}
        )
        for row in rows
    ]


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
