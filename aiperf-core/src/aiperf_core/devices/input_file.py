"""Inputs in files: written by the judge, read by implementations, and removed by the kernel when the judge ends."""

import os
import tempfile
from pathlib import Path
from typing import BinaryIO

import torch

from aiperf_core.devices import disk
from aiperf_core.errors import SkipError

_PIECE_BYTES = 8 << 20


class InputFile:
    """A nameless file in the temporary folder (`$TMPDIR`, else /tmp) with the bytes of a tensor.

    path: opens it while this process lives.
    """

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self.path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        self._written: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the file; processes that opened it by `path` may go on reading."""
        self._file.close()

    def write(self, tensor: torch.Tensor) -> None:
        """Write a tensor's bytes over the old ones, and wait for the disk. Raises `SkipError` for a full disk."""
        fd, data = self._file.fileno(), memoryview(_flat(tensor).numpy().data)
        try:
            os.ftruncate(fd, len(data))
            at = 0
            while at < len(data):
                at += os.pwrite(fd, data[at : at + _PIECE_BYTES], at)
            os.fsync(fd)
        except OSError as error:
            raise SkipError(
                f"needs {len(data):,} bytes of disk in {tempfile.gettempdir()!r}: {error.strerror}; name a folder with "
                "more space in TMPDIR"
            ) from None
        self._written = self._stamp()

    def evict(self) -> None:
        """Evict the file from the page cache. Raises `SkipError` where it stays, as on a file system in memory."""
        if pages := _evict(self._file.fileno()):
            raise _stays(pages)

    def resident_pages(self) -> int:
        """How many pages of the file are in memory."""
        return disk.resident_pages(self._file.fileno())

    def changed(self, tensor: torch.Tensor, *, thorough: bool) -> bool:
        """Whether the file differs from what was written: by its size and time, or by every byte if `thorough`."""
        if self._stamp() != self._written:
            return True
        if not thorough:
            return False
        fd, at = self._file.fileno(), 0
        wanted, found = _flat(tensor), torch.empty(_PIECE_BYTES, dtype=torch.uint8)
        while at < len(wanted):
            got = os.preadv(fd, [found.numpy().data], at)
            if not got or not torch.equal(found[:got], wanted[at : at + got]):
                return True
            at += got
        return False

    def _stamp(self) -> tuple[int, int]:
        stat = os.fstat(self._file.fileno())
        return stat.st_size, stat.st_mtime_ns


def evict_folder(folder: Path) -> None:
    """Evict all files under a folder from the page cache, and wait for the disk where they are not on it yet.

    Raises `SkipError` where a file stays, as on a file system in memory, or while a process has mapped it.
    """
    paths = [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]
    staying = [path for path in paths if _evict_path(path)]
    if staying:
        os.sync()  # pages that wait to be written stay; of many files a wait for each takes far longer
    for path in staying:
        if pages := _evict_path(path):
            raise _stays(pages)


def _evict_path(path: str) -> int:
    fd = os.open(path, os.O_RDONLY)
    try:
        return _evict(fd)
    finally:
        os.close(fd)


def _evict(fd: int) -> int:
    """Evict a file; return how many of its pages stay."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return disk.resident_pages(fd)


def _stays(pages: int) -> SkipError:
    return SkipError(
        f"needs files that can leave the page cache; {pages:,} pages of a file in {tempfile.gettempdir()!r} "
        "stay in memory, as on tmpfs. Name a folder on a disk in TMPDIR"
    )


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)
