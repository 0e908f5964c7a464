"""Write files whole or not at all."""

import contextlib
import os
import secrets
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader, or a crash at any moment, finds the old file or the new one.

    The bytes go to a hidden file in the same folder (a rename is atomic only within a file system), reach the disk, and
    are then renamed. A symbolic link at `path` is replaced, never followed. Raises OSError, leaving nothing behind.

    A device in `/dev` takes the bytes itself: a file in its place would break the machine.
    """
    if path.parent.resolve() == Path("/dev"):
        with open(os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "wb") as device:
            device.write(data)
        return
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable. Some network file systems refuse that; files are whole anyway."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
