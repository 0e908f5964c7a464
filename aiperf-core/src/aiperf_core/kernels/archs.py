"""GPU architectures as kernels declare them: `sm_80` is a minimum, `sm_90a` and `sm_100f` are exact.

The suffix `a` means exactly one architecture; `f` includes later members of its family (sm_100f also runs on compute
capability 10.3).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from aiperf_core.errors import UsageError

_PATTERN = re.compile(r"sm_(\d{1,2})(\d)([af]?)")


class Arch(NamedTuple):
    """A compute capability, and the suffix of an architecture-specific build: `a`, `f` or empty."""

    major: int
    minor: int
    suffix: str = ""

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}{self.suffix}"

    @property
    def number(self) -> int:
        """The capability as a number for NVRTC and Triton: 90 for sm_90a."""
        return self.major * 10 + self.minor


def parse_arch(text: str) -> Arch:
    """Parse text such as `sm_90a`. Raises `UsageError` for other text."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not an architecture. One looks like 'sm_80', 'sm_90a' or 'sm_100f'.")
    return Arch(int(match[1]), int(match[2]), match[3])


def fits(arch: Arch, declared: Sequence[str]) -> bool:
    """Whether a file may be compiled for exactly this architecture: it is declared, or reaches a declared minimum."""
    wanted = [parse_arch(text) for text in declared]
    return arch in wanted or any(not one.suffix and one[:2] <= arch[:2] for one in wanted)


def arch_for(machine: Arch, declared: Sequence[str]) -> str | None:
    """The architecture to compile for a GPU of this capability (its suffix is ignored); None when none fits.

    A declared exact architecture that matches the GPU comes first, then the plain architecture of the GPU if it reaches
    a declared minimum.
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
