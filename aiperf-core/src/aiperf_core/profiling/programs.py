"""Profilers that are programs of their own: where they lie, and which version they are."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path

from aiperf_core.errors import AiperfError

# Where NVIDIA's packages put what is on nobody's PATH.
_ELSEWHERE = (
    "/usr/local/cuda/bin",
    "/opt/nvidia/nsight-compute/*",
    "/opt/nvidia/nsight-systems/*/bin",
    "/opt/nvidia/nsight-systems/*/target-linux-x64",
)
_TIMEOUT_S = 120.0


def find(name: str) -> str | None:
    """The path of a program, on PATH or where its packages put it; None where it is not installed."""
    folders = [folder for pattern in _ELSEWHERE for folder in sorted(glob(pattern), reverse=True)]
    return next(filter(None, (shutil.which(name, path=path) for path in (None, *folders))), None)


def version(path: str) -> str:
    """What a program says of its version."""
    found = re.search(r"\d+(?:\.\d+)+[\w.+-]*", output([path, "--version"]))
    return found[0] if found else "unknown"


def output(argv: Sequence[str]) -> str:
    """What a program prints. Raises `AiperfError` with its last line where it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AiperfError(f"'{argv[0]}' did not run: {error}.") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise AiperfError(f"'{' '.join(argv[:2])} ...' failed with status {done.returncode}: {said}")
    return done.stdout


@contextmanager
def cuda_range() -> Iterator[None]:
    """What Nsight records: between cudaProfilerStart and cudaProfilerStop of this process."""
    import torch

    runtime = torch.cuda.cudart()
    runtime.cudaProfilerStart()
    try:
        yield
    finally:
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()


def missing_gpu(device: str, tool: str) -> str | None:
    """Why a tool for GPUs has nothing to look at."""
    if device == "cuda":
        return None
    return f"{tool} looks at GPUs, and this profile is of the {device}; give --device cuda on a machine with one, or use --tool torch or perf"


def unreadable(path: Path, tool: str) -> AiperfError:
    """A tool's report is not there or not whole."""
    return AiperfError(f"{tool} left no readable '{path.name}'. What it printed is in the log; profile again.")
