"""Receive a bundle from elsewhere: a tar stream becomes a folder, which the readers of bundles then check.

The stream is foreign: its size, its number of files and its ratio of compression are limited, and it may hold regular
files of a bundle only.
"""

import errno
import tarfile
from pathlib import Path
from typing import IO

from attrs import frozen

from aiperf_core.errors import AiperfError, BundleError, UsageError
from aiperf_core.names import words
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.listing import KNOWN
from aiperf_core.results.seal_check import check


@frozen
class Limits:
    """The limits of a stream.

    sent: bytes of the stream. unpacked: bytes of all files. files: their number. ratio: unpacked bytes to sent bytes,
        from `free` unpacked bytes on.
    """

    sent: int = 1 << 28
    unpacked: int = 1 << 30
    files: int = 10_000
    ratio: float = 100.0
    free: int = 1 << 22


LIMITS = Limits()
DEEPEST = 5  # folders of a bundle in each other
CHUNK = 1 << 16
# What the names of a stream can make the system refuse. Other numbers are of the disk.
_OF_NAMES = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


def unpack(file: IO[bytes], staging: Path, sent: int, limits: Limits = LIMITS) -> None:
    """Write the files of a tar stream into a folder.

    Raises UsageError for all that is no file of a bundle, and AiperfError where the disk refuses to read or write.
    """
    unpacked = count = 0
    try:
        with tarfile.open(fileobj=file, mode="r:*") as archive:
            for member in archive:
                count += 1
                if count > limits.files:
                    raise UsageError(f"the stream has more than {limits.files:,} files.")
                place = _place(member)
                if place is None:
                    continue
                unpacked += member.size
                if unpacked > limits.unpacked:
                    raise UsageError(f"the files are larger than {limits.unpacked:,} bytes.")
                if unpacked > limits.free and unpacked > limits.ratio * max(sent, 1):
                    raise UsageError(f"the stream is compressed more than {limits.ratio:g} times.")
                _write(archive, member, staging / place)
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
        # Readers of compressed streams raise OSError without a number.
        if isinstance(error, OSError) and error.errno is not None and error.errno not in _OF_NAMES:
            raise AiperfError(f"the bundle cannot be kept: {error.strerror}.") from error
        raise UsageError(f"the body is no whole tar stream: {words(str(error))[:200]}") from None
    except Exception as error:  # zlib, lzma and bz2 have errors of their own
        if isinstance(error, AiperfError):
            raise
        raise UsageError(f"the body is no whole tar stream: {words(str(error))[:200]}") from None


def _place(member: tarfile.TarInfo) -> Path | None:
    """Where a member goes, below the folder; None for a folder."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    name = words(member.name[:100])
    if member.name.startswith("/") or ".." in parts or len(parts) > DEEPEST or "\\" in member.name:
        raise UsageError(f"'{name}' leads out of the bundle.")
    if member.isdir():
        return None
    if not member.isreg():
        raise UsageError(f"'{name}' is no regular file.")
    if not parts or parts[0] not in KNOWN or any(part.startswith(".") for part in parts):
        raise UsageError(f"'{name}' is no file of a bundle; the stream has {MANIFEST} at its top.")
    return Path(*parts)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = archive.extractfile(member)
    if content is None:
        raise UsageError(f"'{words(member.name[:100])}' is no regular file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    left = member.size
    with content, open(path, "xb") as out:
        while left and (piece := content.read(min(CHUNK, left))):
            out.write(piece)
            left -= len(piece)
    if left:
        raise UsageError("the body is no whole tar stream: it ends within a file")


def validate(folder: Path, seal: str) -> None:
    """Read all of a bundle by the readers of the core. Raises UsageError where it is damaged, or has another seal."""
    try:
        bundle = Bundle.open(folder)
        found = check(bundle)
        problem = "" if found.holds and found.sealed else "its files do not agree with its seal"
        has = bundle.manifest.hashes.get(MANIFEST)
        if not problem and has != seal:
            problem = f"it has the seal {has}"
        for name in bundle.targets if not problem else ():
            bundle.target(name)
    except BundleError as error:
        problem = str(error).replace(str(folder), "the bundle")
    if problem:
        raise UsageError(f"the body is not the bundle {seal[:12]}: {words(problem)[:400]}")
