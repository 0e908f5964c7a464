"""Compiled code on disk, under a key of all its inputs.

An entry is one file with the payload and its sha256, which appears by a rename: a reader sees a complete entry or none,
and detects damage. (Loaders of ELF files ignore bytes after the last section.) A cache that cannot be read or written
only costs time.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from aiperf_core.folders import cache_folder

# Set in a confined process, whose cache is removed with it.
REMOVED = "AIPERF_CACHE_IS_REMOVED"
_DIGEST_BYTES = 32


def kernels_folder() -> Path:
    """The folder of the entries."""
    return cache_folder() / "kernels"


def key_of(*parts: str | bytes) -> str:
    """A hexadecimal key of the parts in order. The length before each keeps them apart."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def fetch(name: str) -> bytes | None:
    """The payload under this name; None when it is missing or damaged."""
    try:
        data = (kernels_folder() / name).read_bytes()
    except OSError:
        return None
    payload, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def keep(name: str, payload: bytes) -> Path | None:
    """Write the payload under this name; return its file, or None when the cache cannot be written."""
    return _write(name, payload + hashlib.sha256(payload).digest())


def keep_log(name: str, text: str) -> Path | None:
    """Write the log of a compiler; return its file, or None when it would not outlast the process."""
    return None if os.environ.get(REMOVED) else _write(f"{name}.{key_of(text)[:12]}.log", text.encode())


def _write(name: str, data: bytes) -> Path | None:
    path = kernels_folder() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    except OSError:
        return None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        return None
    return path
