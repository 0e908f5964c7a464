"""A checkpoint in a folder: parts with the bytes of tensors, and a manifest that names the parts.

The manifest on disk is that of a whole checkpoint at every moment, also when the process is killed: parts are on disk
before a manifest names them, a new manifest replaces the old one in a single step, and a part is removed only when no
manifest on disk names it.
"""

import json
import math
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from aiperf_core.errors import AiperfError

MANIFEST = "checkpoint.json"

Part = dict[str, Any]


class CheckpointError(AiperfError):
    """A checkpoint could not be written, or a folder holds no whole checkpoint."""


def write_part(folder: Path, tensors: Sequence[torch.Tensor], first: int) -> Part:
    """Write tensors to a new file, wait until they are on disk, and return the file's entry in the manifest.

    first: the place of the first tensor in the state.

    Raises `CheckpointError` where the disk is full or fails; the file is removed then.
    """
    path = folder / f"{first:06d}-{secrets.token_hex(6)}.part"
    try:
        with open(path, "xb", buffering=0) as file:
            for tensor in tensors:
                _write(file.fileno(), _bytes_of(tensor))
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _refused(folder, error, sum(tensor.nbytes for tensor in tensors)) from None
    shapes = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors]
    return {"file": path.name, "first": first, "tensors": shapes}


def commit(folder: Path, parts: Sequence[Part]) -> None:
    """Make these parts the checkpoint, in one step; then remove the parts of the checkpoint before.

    Raises `CheckpointError` where the manifest cannot be written; the checkpoint before is still there then.
    """
    waiting = folder / f"{MANIFEST}.new"
    try:
        with open(waiting, "wb", buffering=0) as file:
            _write(file.fileno(), memoryview(json.dumps({"parts": list(parts)}).encode()))
            os.fsync(file.fileno())
        os.replace(waiting, folder / MANIFEST)
        _sync(folder)
    except OSError as error:
        waiting.unlink(missing_ok=True)
        _remove(folder, {part["file"] for part in parts} - _named(folder))
        raise _refused(folder, error, len(json.dumps(list(parts)))) from None
    _remove(folder, {path.name for path in folder.glob("*.part")} - {part["file"] for part in parts})


def save(folder: Path, tensors: Sequence[torch.Tensor]) -> None:
    """Write a whole state as one part, and make it the checkpoint. Raises `CheckpointError`."""
    commit(folder, [write_part(folder, tensors, 0)])


def load(folder: Path) -> list[torch.Tensor]:
    """The tensors of a folder's checkpoint, in the order of the state.

    It may be replaced meanwhile: then the new one is read. Raises `CheckpointError` where there is none, or where a
    part has another size than the manifest says.
    """
    parts = _manifest(folder)["parts"]
    state: dict[int, torch.Tensor] = {}
    try:
        for part in parts:
            for place, tensor in enumerate(_read_part(folder / part["file"], part["tensors"]), part["first"]):
                state[place] = tensor
    except CheckpointError:
        if _manifest(folder)["parts"] == parts:
            raise
        return load(folder)
    if sorted(state) != list(range(len(state))):
        raise CheckpointError(f"the checkpoint in '{folder}' lacks tensors: it has {len(state)}, up to {max(state)}")
    return [state[place] for place in range(len(state))]


def places_in(folder: Path) -> list[tuple[Path, int, int]]:
    """The file, the first byte in it and the bytes of each tensor, in the order of the state.

    Raises `CheckpointError` where there is no checkpoint.
    """
    places: dict[int, tuple[Path, int, int]] = {}
    for part in _manifest(folder)["parts"]:
        first = 0
        for place, size in enumerate(_sizes(_forms(part["tensors"])), part["first"]):
            places[place] = folder / part["file"], first, size
            first += size
    return [place for _, place in sorted(places.items())]


def read_bytes(fd: int, path: Path, first: int, memory: memoryview) -> None:
    """Fill memory with the bytes of a file from `first` on. Raises `CheckpointError` where the file ends before."""
    filled = 0
    while filled < len(memory):
        count = os.preadv(fd, [memory[filled:]], first + filled)
        if not count:
            raise CheckpointError(
                f"'{path}' ends after {first + filled:,} bytes; its manifest needs {first + len(memory):,}"
            )
        filled += count


def _forms(shapes: Sequence[tuple[str, list[int]]]) -> list[tuple[torch.dtype, list[int]]]:
    return [(getattr(torch, dtype), shape) for dtype, shape in shapes]


def _sizes(forms: Sequence[tuple[torch.dtype, list[int]]]) -> list[int]:
    return [dtype.itemsize * math.prod(shape) for dtype, shape in forms]


def _read_part(path: Path, shapes: Sequence[tuple[str, list[int]]]) -> list[torch.Tensor]:
    forms = _forms(shapes)
    sizes = _sizes(forms)
    try:
        data = torch.frombuffer(bytearray(path.read_bytes() or b"\0"), dtype=torch.uint8)
        found = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"'{path}' cannot be read: {error.strerror}") from None
    if found != sum(sizes):
        raise CheckpointError(f"'{path}' has {found:,} bytes; its manifest says {sum(sizes):,}")
    pieces = data[:found].split(sizes)
    # Each in memory of its own: the first byte of a dtype must be at a multiple of its size.
    return [piece.clone().view(dtype).view(shape) for piece, (dtype, shape) in zip(pieces, forms, strict=True)]


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint in '{folder}': no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"'{path}' cannot be read: {error}") from None
    return found


def _named(folder: Path) -> set[str]:
    """The names of the parts of the checkpoint on disk."""
    try:
        return {part["file"] for part in _manifest(folder)["parts"]}
    except CheckpointError:
        return set()


def _remove(folder: Path, names: set[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().view(-1)
    return memoryview(flat.view(torch.uint8).numpy().data) if flat.numel() else memoryview(b"")


def _refused(folder: Path, error: OSError, size: int) -> CheckpointError:
    return CheckpointError(
        f"{size:,} bytes could not be saved in '{folder}': {error.strerror}. A checkpoint that was there before "
        "is still whole; make room, or name another folder"
    )
