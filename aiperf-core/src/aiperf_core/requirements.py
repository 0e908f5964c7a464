"""Requirements of an implementation, and whether a machine meets them.

A requirement is a short text: `sm_80` (that compute capability or a later one), `sm_90a` (that architecture exactly),
`compiler` (a C compiler), `machine:x86_64` (the processor's kind, as `uname -m` says it), `package:triton` (an
importable package), `gpus:2` (at least 2), `capability:fp64` (a capability of a plugin's device).
"""

import importlib.util
import os
import platform
import re
import shutil

from attrs import frozen

ACCEPTED = (
    "'sm_80' (or later), 'sm_90a' (exactly), 'compiler', 'machine:NAME', 'package:NAME', 'gpus:N', 'capability:NAME'"
)
_PATTERN = re.compile(
    r"sm_(?P<arch>\d{2,3})(?P<exact>[af]?)|compiler|machine:(?P<machine>\w+)|package:(?P<package>[\w.]+)"
    r"|gpus:(?P<gpus>\d+)|capability:(?P<capability>[\w.-]+)"
)


@frozen
class Hardware:
    """The hardware of a run.

    gpu: the name of the GPU; None without one.
    arch: its compute capability, `major * 10 + minor`.
    gpus: the number of GPUs.
    capabilities: of a plugin's device.
    """

    gpu: str | None = None
    arch: int | None = None
    gpus: int = 0
    capabilities: tuple[str, ...] = ()


def is_requirement(text: str) -> bool:
    """Whether the text is one of the accepted forms."""
    return _PATTERN.fullmatch(text) is not None


def lacking(text: str, hardware: Hardware) -> str | None:
    """Why this machine does not meet a requirement; None when it does. Raises `ValueError` for text of another form."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(text)
    if match["arch"]:
        return _lacking_arch(text, int(match["arch"]), bool(match["exact"]), hardware)
    if match["package"]:
        return None if _importable(match["package"]) else f"needs the package {match['package']!r} (pip install it)"
    if match["machine"]:
        found = platform.machine()
        return None if found == match["machine"] else f"needs a processor of kind {match['machine']} (this is {found})"
    if match["gpus"]:
        enough = hardware.gpus >= int(match["gpus"])
        return None if enough else f"needs {match['gpus']} GPUs (this machine has {hardware.gpus})"
    if match["capability"]:
        if match["capability"] in hardware.capabilities:
            return None
        found = ", ".join(hardware.capabilities) or "none"
        return f"needs the capability {match['capability']!r} (this device's are: {found})"
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return None if compiler else "needs a C compiler (looked for $CC, cc, gcc, clang)"


def _lacking_arch(text: str, arch: int, exact: bool, hardware: Hardware) -> str | None:
    if hardware.arch is None:
        return f"needs {text} (this machine has no CUDA GPU)"
    meets = hardware.arch == arch if exact else hardware.arch >= arch
    return None if meets else f"needs {text} (this GPU is sm_{hardware.arch}, {hardware.gpu})"


def _importable(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except Exception:  # the parent of a dotted name is imported, and may raise anything
        return False
