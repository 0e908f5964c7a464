"""The disk and memory that processes take beyond what limits of the kernel count, read from the kernel's files."""

import contextlib
import errno
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

# A range of addresses, its offset in the file, the file's device and its number; of files that have lost their names.
_DELETED = re.compile(rb"^(\w+)-(\w+) \S+ (\w+) (\w+):(\w+) (\d+) .*\(deleted\)$", re.MULTILINE)
# A device and a number on it, which is what names a file that has lost its name.
FileId = tuple[int, int]


@frozen
class DiskUse:
    """The files and folders under a folder.

    bytes: the disk space that they take; infinity where folders are nested too deeply for a path, so that their files
        cannot be counted. Holes in files take none.
    files: how many there are.
    """

    bytes: float
    files: int


def disk_use(folder: Path) -> DiskUse:
    """Disk use of the files under a folder."""
    total, count, folders = 0, 0, [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                found = list(entries)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return DiskUse(math.inf, count)
            continue  # it was removed
        count += len(found)
        folders += [one.path for one in found if one.is_dir(follow_symlinks=False)]
        for one in found:
            with contextlib.suppress(OSError):  # it was removed
                total += one.stat(follow_symlinks=False).st_blocks * 512
    return DiskUse(total, count)


def nameless_files(pids: Iterable[int]) -> dict[FileId, int]:
    """The files without a name that processes have open or mapped, in bytes: removed ones, and files in memory.

    Where only root may ask for the size of a file that is mapped and not open, the part that is mapped counts.
    """
    sizes: dict[FileId, int] = {}
    for pid in pids:
        for file in _open_files(pid):
            if stat.S_ISREG(file.st_mode) and file.st_nlink == 0:
                sizes[file.st_dev, file.st_ino] = file.st_blocks * 512
    for pid in pids:
        for start, end, offset, major, minor, number in _DELETED.findall(_read(f"/proc/{pid}/maps")):
            key = os.makedev(int(major, 16), int(minor, 16)), int(number)
            if key not in sizes:
                sizes[key] = int(offset, 16) + int(end, 16) - int(start, 16)
                with contextlib.suppress(OSError):
                    path = f"/proc/{pid}/map_files/{start.lstrip(b'0').decode()}-{end.lstrip(b'0').decode()}"
                    sizes[key] = os.stat(path).st_blocks * 512
    return sizes


def private_bytes(pids: Iterable[int], most: float) -> int:
    """The private memory of processes. Beyond `most`, pages that they share are counted once, which takes longer."""
    total = sum(_kib(_read(f"/proc/{pid}/status"), b"RssAnon:") for pid in pids)
    if total > most:
        total = sum(_kib(_read(f"/proc/{pid}/smaps_rollup"), b"Pss_Anon:") for pid in pids)
    return total


def _open_files(pid: int) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):  # it ended
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # it was closed
                yield os.stat(f"/proc/{pid}/fd/{name}")


def _kib(text: bytes, name: bytes) -> int:
    value = text.partition(name)[2].split(maxsplit=1)
    return int(value[0]) * 1024 if value else 0


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
