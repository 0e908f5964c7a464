"""The rates of the disk of the temporary folder, where inputs in files and the folders of benchmarks are."""

import contextlib
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self

import numpy

from aiperf_core.devices.disk import IN_MEMORY, file_system, resident_pages
from aiperf_core.devices.measuring import Best, Call, Form, Page, quickest, wall
from aiperf_core.errors import AiperfError

_MOST_BYTES, _LEAST_BYTES = 256 << 20, 16 << 20
_LARGEST_SHARE = 4  # of the free space, for the file
# Bytes of a request, and requests at a time.
_REQUESTS = ((1 << 20, 4), (8 << 20, 4), (1 << 20, 16), (8 << 20, 1))
# Budgets in seconds: of one form, and of all forms of one direction. On a slow disk the first form counts alone.
_FORM_S, _ALL_FORMS_S = 0.3, 2.0


def fill(page: Page) -> None:
    """Measure writes until the data is on the disk, and reads past the page cache."""
    page.take("disk_write_bytes_per_s", "disk, write", partial(_rate, _File.writes))
    page.take("disk_read_bytes_per_s", "disk, read", partial(_rate, _File.reads))


def _rate(forms_of: "Callable[[_File], Iterator[Form]]") -> Best:
    with _File() as file:
        took, name = quickest(file.watch, _within(forms_of(file)), _FORM_S)
        return Best(file.size / took, f"{name}, {file.size >> 20} MiB in {file.where}")


def _within(forms: Iterator[Form]) -> Iterator[Form]:
    deadline = time.monotonic() + _ALL_FORMS_S
    for form in forms:
        yield form
        if time.monotonic() >= deadline:
            return


class _File:
    """A nameless file of random bytes. Raises `AiperfError` with the reason where there can be none."""

    def __init__(self) -> None:
        folder = tempfile.gettempdir()
        kind, source = file_system(folder)
        self.where = f"'{folder}' ({kind} on {source})" if kind else f"'{folder}'"
        if kind in IN_MEMORY:
            raise AiperfError(f"temporary files are in memory: '{folder}' is {kind}; name a folder on a disk in TMPDIR")
        free = shutil.disk_usage(folder).free
        self.size = min(_MOST_BYTES, free // _LARGEST_SHARE) // _LEAST_BYTES * _LEAST_BYTES
        if not self.size:
            raise AiperfError(
                f"'{folder}' has {free >> 20} MiB of free space, and {_LARGEST_SHARE * _LEAST_BYTES >> 20} MiB are "
                "needed; name a folder with more space in TMPDIR"
            )
        # Direct transfers need memory that begins at a page.
        most = max(size * count for size, count in _REQUESTS)
        self._buffer = mmap.mmap(-1, most, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        # A request of small pages is cut where the disk takes no more pieces of memory at a time.
        with contextlib.suppress(OSError):
            self._buffer.madvise(mmap.MADV_HUGEPAGE)
        self._buffer.write(numpy.random.default_rng().bytes(len(self._buffer)))
        self._direct: int | None = None
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        except OSError as error:
            raise _refused(error) from None

    def __enter__(self) -> Self:
        try:
            self._write(self._file.fileno(), *_REQUESTS[0])
        except BaseException:
            self.__exit__()
            raise
        try:
            self._direct = os.open(f"/proc/self/fd/{self._file.fileno()}", os.O_RDWR | os.O_DIRECT)
        except OSError:  # a file system without direct transfers
            self._direct = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._direct is not None:
            os.close(self._direct)
        self._file.close()

    def watch(self, call: Call) -> float:
        """The time of a call, in seconds; before it, the file is evicted from the page cache."""
        fd = self._file.fileno()
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if resident_pages(fd):
            raise AiperfError(f"files in {self.where} stay in the page cache; name a folder on another disk in TMPDIR")
        return wall(call)

    def writes(self) -> Iterator[Form]:
        """Ways to write the whole file."""
        yield from self._forms(self._write)

    def reads(self) -> Iterator[Form]:
        """Ways to read the whole file."""
        yield from self._forms(self._read)

    def _forms(self, move: Callable[[int, int, int], None]) -> Iterator[Form]:
        for size, count in _REQUESTS:
            requests = f"{count} x {size >> 20} MiB at once"
            if self._direct is not None:
                yield f"direct, {requests}", partial(move, self._direct, size, count)
            yield f"cached, {requests}", partial(move, self._file.fileno(), size, count)

    def _write(self, fd: int, size: int, count: int) -> None:
        try:
            self._move(partial(os.pwritev, fd), size, count)
            os.fsync(fd)
        except OSError as error:
            raise _refused(error) from None

    def _read(self, fd: int, size: int, count: int) -> None:
        self._move(partial(os.preadv, fd), size, count)

    def _move(self, move: Callable[[list[memoryview], int], int], size: int, count: int) -> None:
        """Move the whole file in pieces of `size` bytes by `count` threads, each with a part of the buffer."""

        def part(thread: int) -> int:
            piece = memoryview(self._buffer)[thread * size : (thread + 1) * size]
            return sum(move([piece], at) for at in range(thread * size, self.size, count * size))

        if count == 1:
            moved = part(0)
        else:
            with ThreadPoolExecutor(count) as threads:
                moved = sum(threads.map(part, range(count)))
        if moved != self.size:
            raise AiperfError(f"only {moved:,} of {self.size:,} bytes were moved in {self.where}")


def _refused(error: OSError) -> AiperfError:
    return AiperfError(
        f"no file can be written in '{tempfile.gettempdir()}': {error.strerror}; name another folder in TMPDIR"
    )
