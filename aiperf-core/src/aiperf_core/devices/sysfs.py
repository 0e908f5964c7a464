"""Reads the small text files of /proc and /sys."""

import os
from pathlib import Path

CACHES = "/sys/devices/system/cpu/cpu0/cache"
_UNITS = {"K": 10, "M": 20, "G": 30}


def text(file: Path | str) -> str:
    """The text of a file without surrounding blanks; empty when it cannot be read."""
    try:
        return Path(file).read_text(errors="replace").strip()
    except OSError:
        return ""


def integer(file: Path) -> int | None:
    """The number in a file; None when there is none."""
    try:
        return int(text(file))
    except ValueError:
        return None


def numbers(listed: str) -> list[int]:
    """The numbers of a list in the kernel's form: `0-3,8`."""
    found: list[int] = []
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def size_bytes(size: str) -> int:
    """`32768K` in bytes; 0 for other text."""
    number = size.rstrip("KMG")
    return int(number) << _UNITS.get(size[-1:], 0) if number.isdigit() else 0


def usable_cpu_folders(folder: Path) -> list[Path]:
    """The folders `cpu0`, `cpu1`, ... of the CPUs that this process may run on."""
    return [path for cpu in sorted(os.sched_getaffinity(0)) if (path := folder / f"cpu{cpu}").is_dir()]


def largest_cache_bytes(folder: Path) -> int:
    """The size of the largest cache in a folder such as `CACHES`; 0 when the kernel does not tell it."""
    return max((size_bytes(text(file)) for file in folder.glob("index*/size")), default=0)
