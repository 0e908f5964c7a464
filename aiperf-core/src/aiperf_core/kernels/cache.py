"""Compiled code on disk, under a name made of everything that decides its bytes.

An entry is its payload followed by the payload's sha256, in one file that appears by a rename: a reader sees a whole
entry or none, and a damaged one is noticed. (Loaders of ELF files ignore what follows the last section.) A cache that
cannot be read or written only costs time.
"""

import hashlib
import os
import tempfile
from pathlib import Path

from aiperf_core.folders import cache_folder

_DIGEST_BYTES = 32


def kernels_folder() -> Path:
    """Where the entries lie, in the cache's folder."""
    return cache_folder() / "kernels"


def key_of(*parts: str | bytes) -> str:
    """Return a hexadecimal key of the parts, in order. Each is preceded by its length, so none runs into another."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def fetch(name: str) -> bytes | None:
    """Return the payload kept under this name, or None where there is none or it is damaged."""
    try:
        data = (kernels_folder() / name).read_bytes()
    except OSError:
        return None
    payload, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def keep(name: str, payload: bytes) -> Path | None:
    """Keep the payload under this name and return its file, or None where the cache cannot be written."""
    path = kernels_folder() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    except OSError:
        return None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(payload + hashlib.sha256(payload).digest())
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        return None
    return path
