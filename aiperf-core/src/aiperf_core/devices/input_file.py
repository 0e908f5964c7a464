"""Inputs in files: written by the judge, read by implementations, and removed by the kernel when the judge ends."""

import os
import tempfile
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
        fd = self._file.fileno()
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        pages = self.resident_pages()
        if pages:
            raise SkipError(
                f"needs files that can leave the page cache; {pages:,} pages of a file in {tempfile.gettempdir()!r} "
                "stay in memory, as on tmpfs. Name a folder on a disk in TMPDIR"
            )

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


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)
