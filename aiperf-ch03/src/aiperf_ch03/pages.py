"""Huge pages: what this machine offers, and what a mapping got."""

import ctypes
import mmap
from pathlib import Path

from aiperf_core.errors import SkipError

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
RESERVED = Path("/proc/sys/vm/nr_hugepages")
MAP_HUGETLB = 0x40000
HUGE_BYTES = 2 << 20


def refuse_without_huge_pages(setting: Path = SETTING) -> None:
    """Raise `SkipError` where the kernel gives no transparent huge pages on request, with its setting."""
    try:
        said = setting.read_text().strip()
    except OSError:
        raise SkipError(f"needs transparent huge pages; this kernel has none ({setting} cannot be read)") from None
    if "[never]" in said:
        raise SkipError(f"needs transparent huge pages; {setting} says {said!r}, accepted are [madvise] and [always]")


def refuse_small_pages(pages: mmap.mmap, smaps: Path = Path("/proc/self/smaps")) -> None:
    """Raise `SkipError` where a written mapping that has room for huge pages got none."""
    if len(pages) < 2 * HUGE_BYTES:
        return  # whether an aligned 2 MiB lies in it is chance
    got = huge_bytes(pages, smaps)
    if got < len(pages) // 2:
        raise SkipError(
            f"needs transparent huge pages; the kernel gave {got >> 20} MiB of {len(pages) >> 20} MiB in them"
        )


def huge_bytes(pages: mmap.mmap, smaps: Path = Path("/proc/self/smaps")) -> int:
    """The bytes of a mapping that lie in huge pages (`AnonHugePages` of the kernel's `smaps`)."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    found, inside = 0, False
    for line in smaps.read_text().splitlines():
        first, _, rest = line.partition(" ")
        if "-" in first and not first.endswith(":"):
            low, high = (int(text, 16) for text in first.split("-"))
            # The kernel may cut a mapping in pieces, or join it with a neighbour.
            inside = low < start + len(pages) and high > start
        elif inside and first == "AnonHugePages:":
            found += int(rest.split()[0]) << 10
    return min(found, len(pages))


def reserved(length: int) -> mmap.mmap:
    """A mapping in pages that the administrator reserved. Raises `SkipError` where there are too few."""
    needed = -(-length // HUGE_BYTES)
    try:
        return mmap.mmap(-1, needed * HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB)
    except OSError as error:
        there = RESERVED.read_text().strip() if RESERVED.exists() else "none"
        raise SkipError(
            f"needs {needed} reserved huge pages ({error.strerror}); {RESERVED} says {there}, "
            f"and an administrator raises it with: sysctl vm.nr_hugepages={needed}"
        ) from None
