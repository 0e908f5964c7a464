"""Probes of installed packages and of the working directory."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from aiperf_analysis.advice.probes.gpu import of_gpu
from aiperf_analysis.advice.probes.seen import Answer, Seen, absent, decided, unknown
from aiperf_core.devices.sysfs import text
from aiperf_core.git import git_commit

_TORCH = (2, 5)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _torch(seen: Seen) -> Answer:
    found = seen.version_of("torch")
    return decided(_numbers(found) >= _TORCH, f"torch {found}" if found else "torch is missing")


def _installed(name: str) -> Callable[[Seen], Answer]:
    def probe(seen: Seen) -> Answer:
        found = seen.version_of(name)
        return decided(bool(found), f"{name} {found}" if found else f"{name} is not installed")

    return of_gpu(probe)


@of_gpu
def _driver_for_torch(seen: Seen) -> Answer:
    if not seen.version_of("torch"):
        return absent("torch is not installed")
    built = torch_cuda()
    if not built:
        return decided(False, "this torch was built without CUDA")
    if not seen.cuda:
        return unknown("the driver does not tell its CUDA version")
    told = f"torch for CUDA {built}, driver for CUDA up to {seen.cuda}"
    # Minor versions of one major version are compatible.
    return decided(_numbers(built)[:1] <= _numbers(seen.cuda)[:1], told)


def torch_cuda() -> str:
    """The CUDA version that torch was built for, read from its file without importing it; empty for a CPU build."""
    spec = find_spec("torch")
    if spec is None or not spec.origin:
        return ""
    match = re.search(r"^cuda\b[^=]*=\s*'([\d.]+)'", text(Path(spec.origin).parent / "version.py"), re.MULTILINE)
    return match[1] if match else ""


def _clean(_: Seen) -> Answer:
    commit = git_commit(Path.cwd())
    if commit is None:
        return absent("the working directory is no git repository")
    return decided(not commit.endswith("-dirty"), f"commit {commit[:12]}" + ("-dirty" * commit.endswith("-dirty")))


PROBES: dict[str, Callable[[Seen], Answer]] = {
    "torch.version": _torch,
    "triton.installed": _installed("triton"),
    "nvrtc.installed": _installed("nvidia-cuda-nvrtc"),
    "gpu.driver_for_torch": _driver_for_torch,
    "git.clean": _clean,
}
