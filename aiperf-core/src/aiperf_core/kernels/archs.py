"""GPU architectures as kernels declare them: `sm_80` is a minimum, `sm_90a` and `sm_100f` are exact.

The suffix `a` means one architecture and nothing newer; `f` means the later members of its family too (sm_100f also
runs on compute capability 10.3).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from aiperf_core.errors import UsageError

_PATTERN = re.compile(r"sm_(\d{1,2})(\d)([af]?)")


class Arch(NamedTuple):
    """A compute capability, and the suffix of an architecture-specific build (`a`, `f` or nothing)."""

    major: int
    minor: int
    suffix: str = ""

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}{self.suffix}"

    @property
    def number(self) -> int:
        """The capability as NVRTC and Triton count it: 90 for sm_90a."""
        return self.major * 10 + self.minor


def parse_arch(text: str) -> Arch:
    """Read `sm_90a`. Raises `UsageError` for anything else."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not an architecture; accepted: 'sm_80', 'sm_90a', 'sm_100a', 'sm_100f'")
    return Arch(int(match[1]), int(match[2]), match[3])


def arch_for(machine: Arch, declared: Sequence[str]) -> str | None:
    """Return what to compile for a GPU of this capability (its suffix is ignored), or None where nothing fits.

    An exact architecture that the file declares and this GPU is comes first; otherwise the plain architecture of the
    GPU, where it is at least a declared minimum.
    """
    wanted = [parse_arch(text) for text in declared]
    for suffix in "af":
        for arch in wanted:
            if arch.suffix == suffix and _runs_exact(arch, machine):
                return str(arch)
    plain = (arch for arch in wanted if not arch.suffix)
    if any(arch[:2] <= machine[:2] for arch in plain):
        return str(machine._replace(suffix=""))
    return None


def _runs_exact(arch: Arch, machine: Arch) -> bool:
    if arch.suffix == "f":
        return arch.major == machine.major and arch.minor <= machine.minor
    return arch[:2] == machine[:2]
