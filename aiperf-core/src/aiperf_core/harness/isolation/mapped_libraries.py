"""Which shared libraries processes have mapped, as the kernel lists them: no claim of the processes themselves."""

import hashlib
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")
# `libcuda.so.570.86` is `libcuda`. Extension modules and compiled kernels have other names: they are code of a side.
_NAME = re.compile(r"(lib[^/]+?)\.so[\d.]*")
_DELETED = " (deleted)"
# The header, which holds the build id, and the end; with the size, enough to tell builds apart.
_PART_BYTES = 1 << 16

# By name, the path of each build by its fingerprint.
Libraries = dict[str, dict[str, str]]


def mapped_libraries(pids: Iterable[int], proc: Path = _PROC) -> Libraries | None:
    """The libraries of processes; None where the kernel shows none of them."""
    found: Libraries = {}
    for pid in pids:
        try:
            lines = (proc / str(pid) / "maps").read_text(errors="replace").splitlines()
        except OSError:
            continue
        # address, permissions, offset, device, inode, path
        for device, inode, path in {tuple(line.split(maxsplit=5)[3:]) for line in lines if " /" in line}:
            name = _NAME.fullmatch(os.path.basename(path.removesuffix(_DELETED)))
            if name is not None:
                fingerprint = _fingerprint(f"{proc}/{pid}/root{path}") or f"inode {device} {inode}"
                found.setdefault(name[1], {})[fingerprint] = path
    return found or None


def _fingerprint(path: str) -> str | None:
    """Of a file's build; None where the file cannot be read any more."""
    try:
        stat = os.stat(path)
        return _read(path, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _read(path: str, device: int, inode: int, size: int, modified_ns: int) -> str:
    with open(path, "rb") as file:
        told = hashlib.sha256(file.read(_PART_BYTES))
        file.seek(max(0, size - _PART_BYTES))
        told.update(file.read(_PART_BYTES) + size.to_bytes(8, "little"))
    return told.hexdigest()[:16]
