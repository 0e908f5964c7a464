"""The disk of the temporary folder: which file system it is, and which pages of a file are in memory."""

import ctypes
import mmap
import os
from pathlib import Path

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")

_MOUNTS = Path("/proc/self/mountinfo")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_MAP_FAILED = ctypes.c_void_p(-1).value


def file_system(folder: str) -> tuple[str, str]:
    """The type of the file system of a folder, and what is mounted there: `ext4`, `/dev/vda`. Empty if unknown."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return "", ""
    path, found = Path(os.path.realpath(folder)), ("", "")
    longest = -1
    for line in lines:
        # proc(5): "ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [TAG ...] - TYPE SOURCE SUPER_OPTIONS"
        head, _, tail = line.partition(" - ")
        point = head.split()[4].replace("\\040", " ")
        # A later mount on the same folder hides an earlier one.
        if path.is_relative_to(point) and len(point) >= longest:
            longest, found = len(point), (tail.split()[0], tail.split()[1])
    return found


def resident_pages(fd: int) -> int:
    """How many pages of a file are in the page cache. Raises `OSError`."""
    size = os.fstat(fd).st_size
    if not size:
        return 0
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap of a file")
    held = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    failed = _libc.mincore(address, size, held)
    _libc.munmap(address, size)
    if failed:
        raise OSError(ctypes.get_errno(), "mincore of a file")
    return sum(page & 1 for page in held.raw)
