"""Profilers that are programs of their own: their path, version and output."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path

from aiperf_core.errors import AiperfError

# Folders of NVIDIA's packages that are not on PATH.
_ELSEWHERE = (
    "/usr/local/cuda/bin",
    "/opt/nvidia/nsight-compute/*",
    "/opt/nvidia/nsight-systems/*/bin",
    "/opt/nvidia/nsight-systems/*/target-linux-x64",
)
_TIMEOUT_S = 120.0


def find(name: str) -> str | None:
    """The path of a program, on PATH or in the folders of its packages; None when it is not installed."""
    folders = [folder for pattern in _ELSEWHERE for folder in sorted(glob(pattern), reverse=True)]
    return next(filter(None, (shutil.which(name, path=path) for path in (None, *folders))), None)


def version(path: str) -> str:
    """The version that a program prints."""
    found = re.search(r"\d+(?:\.\d+)+[\w.+-]*", output([path, "--version"]))
    return found[0] if found else "unknown"


def output(argv: Sequence[str]) -> str:
    """The output of a program. Raises `AiperfError` with its last line when it fails."""
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
    """The range that Nsight records, from cudaProfilerStart to cudaProfilerStop of this process."""
    import torch

    runtime = torch.cuda.cudart()
    runtime.cudaProfilerStart()
    try:
        yield
    finally:
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()


def missing_nsight(tool: str, product: str, device: str) -> str | None:
    """Why a tool of Nsight cannot profile a device here; None when it can."""
    if find(tool) is None:
        return (
            f"{tool} is not installed (looked on PATH, in /usr/local/cuda and /opt/nvidia); "
            f"install Nsight {product} from https://developer.nvidia.com/nsight-{product.lower()}, or use --tool torch"
        )
    if device == "cuda":
        return None
    return (
        f"{tool} profiles GPUs, and this profile is of the {device}; "
        "give --device cuda on a machine with a GPU, or use --tool torch or perf"
    )


def without_metrics(tool: str, metrics: Sequence[str]) -> str | None:
    """Why a tool that offers no metrics cannot collect `metrics`; None when there are none."""
    if not metrics:
        return None
    return f"{tool} has no metrics to choose from; leave out --metrics, or choose a tool that has: --tool ncu"


def unreadable(path: Path, tool: str) -> AiperfError:
    """The error for a report that is missing or incomplete."""
    return AiperfError(f"{tool} left no readable '{path.name}'. Its output is in the log; profile again.")
