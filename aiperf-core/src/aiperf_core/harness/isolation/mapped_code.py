"""Which compiled code processes have mapped, as the kernel lists it: no claim of the processes themselves."""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from attrs import field, frozen

_PROC = Path("/proc")
# `libcuda.so.570.86` is `libcuda`.
_LIBRARY, _EXTENSION = re.compile(r"(lib[^/]+?)\.so[\d.]*"), re.compile(r"[^/]+\.so")
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib-dynload/")
_DELETED = " (deleted)"
# The header, which holds the build id, and the end; with the size, enough to tell builds apart.
_PART_BYTES = 1 << 16
# By device, inode, size and time of change: what a run of many processes reads once.
_FINGERPRINTS: dict[tuple[int, int, int, int], str] = {}

# By name, the path of each build by its fingerprint.
Libraries = dict[str, dict[str, str]]


@frozen
class Mapped:
    """Compiled code that processes have mapped.

    libraries: shared libraries, by name.
    extensions: paths of other compiled modules that belong to no installed package.
    """

    libraries: Libraries = field(factory=dict)
    extensions: list[str] = field(factory=list)


def mapped(pids: Iterable[int], proc: Path = _PROC) -> Mapped | None:
    """Code that processes have mapped; None where the kernel tells of none of them."""
    found = Mapped()
    for pid in pids:
        try:
            lines = (proc / str(pid) / "maps").read_text(errors="replace").splitlines()
        except OSError:
            continue
        # address, permissions, offset, device, inode, path
        for device, inode, path in sorted({tuple(line.split(maxsplit=5)[3:]) for line in lines if " /" in line}):
            name = os.path.basename(path.removesuffix(_DELETED))
            if library := _LIBRARY.fullmatch(name):
                fingerprint = _fingerprint(f"{proc}/{pid}/root{path}") or f"inode {device} {inode}"
                found.libraries.setdefault(library[1], {})[fingerprint] = path
            elif _EXTENSION.fullmatch(name) and not any(one in path for one in _INSTALLED):
                found.extensions.append(path)
    return found if found.libraries or found.extensions else None


def _fingerprint(path: str) -> str | None:
    """Fingerprint of a file's build; None where the file cannot be read any more."""
    try:
        stat = os.stat(path)
        # The same file has another path in each process.
        key = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
        if key not in _FINGERPRINTS:
            with open(path, "rb") as file:
                told = hashlib.sha256(file.read(_PART_BYTES))
                file.seek(max(0, stat.st_size - _PART_BYTES))
                told.update(file.read(_PART_BYTES) + stat.st_size.to_bytes(8, "little"))
            _FINGERPRINTS[key] = told.hexdigest()[:16]
        return _FINGERPRINTS[key]
    except OSError:
        return None
