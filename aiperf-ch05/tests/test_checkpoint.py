"""What lies on disk is a whole checkpoint at every moment, whoever is killed and whatever is full."""

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_ch05 import checkpoint
from aiperf_ch05.checkpoint import CheckpointError

# What a save does to the disk, one after the other.
CALLS = ("open", "write", "fsync", "replace", "unlink")


def state(number: int) -> list[torch.Tensor]:
    """A state of which every element says which one it is."""
    return [torch.full((size,), number, dtype=torch.float32) for size in (1000, 7, 3000)]


def number_of(folder: Path) -> int:
    """Which state lies in a folder. Raises where it is not whole, or not of one piece."""
    found = {int(value) for tensor in checkpoint.load(folder) for value in tensor.unique()}
    (number,) = found
    return number


def save_in_parts(folder: Path, number: int) -> None:
    first, *others = state(number)
    parts = [checkpoint.write_part(folder, [first], 0), checkpoint.write_part(folder, others, 1)]
    checkpoint.commit(folder, parts)


def in_a_child(work: Callable[[], None]) -> int:
    """Run something in a forked process; the status with which it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_before(call: int) -> Callable[..., Any]:
    """Have this process killed when it makes its call number `call` that touches the disk."""
    made = 0

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            made += 1
            if made == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return counting

    return wrapped


def test_killed_before_every_single_call(tmp_path: Path) -> None:
    seen = set()
    for call in range(1, 100):
        folder = tmp_path / str(call)
        folder.mkdir()
        save_in_parts(folder, 1)

        def save(call: int = call, folder: Path = folder) -> None:
            wrapped = die_before(call)
            for name in CALLS:
                setattr(os, name, wrapped(getattr(os, name)))
            save_in_parts(folder, 2)

        status = in_a_child(save)
        seen.add(number_of(folder))
        # A process that starts again finds its way, and what the dead one left is gone after the next save.
        save_in_parts(folder, 3)
        assert number_of(folder) == 3
        assert len(list(folder.iterdir())) == 3
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert call > 8
    assert seen == {1, 2}


def test_a_checkpoint_that_is_replaced_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, state(0))
    read, replaced = checkpoint._read_part, []

    def late(path: Path, shapes: Any) -> Any:
        if not replaced:
            replaced.append(checkpoint.save(tmp_path, state(1)))
        return read(path, shapes)

    monkeypatch.setattr(checkpoint, "_read_part", late)
    assert number_of(tmp_path) == 1


def test_killed_at_any_moment(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, state(0))

    def save_forever() -> None:
        for number in range(1, 1 << 20):
            save_in_parts(tmp_path, number)

    before = 0
    for attempt in range(12):
        pid = os.fork()
        if pid == 0:
            try:
                save_forever()
            finally:
                os._exit(1)
        deadline = time.monotonic() + 20.0
        while attempt == 0 and number_of(tmp_path) == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.003 + 0.0017 * attempt)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        before = max(before, number_of(tmp_path))
    assert before > 0


def test_parts_are_on_disk_before_a_manifest_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def noting(name: str, of: Callable[..., str]) -> None:
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args: (told.append(of(*args)), original(*args))[1])

    noting("fsync", lambda fd: "fsync " + Path(os.readlink(f"/proc/self/fd/{fd}")).suffix)
    noting("replace", lambda *_: "replace")
    save_in_parts(tmp_path, 1)
    assert told == ["fsync .part", "fsync .part", "fsync .new", "replace", "fsync "]


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, state(1))
    files = sorted(tmp_path.iterdir())
    written = os.write

    def full_after(room: int) -> Callable[[int, memoryview], int]:
        def write(fd: int, data: memoryview) -> int:
            nonlocal room
            if room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            count = written(fd, data[:room])
            room -= count
            return count

        return write

    # In the first part, in the second, in the manifest.
    for room in (0, 3999, 4000, 9000, 16028, 16050):
        monkeypatch.setattr(os, "write", full_after(room))
        with pytest.raises(CheckpointError) as caught:
            save_in_parts(tmp_path, 2)
        assert f"could not be saved in '{tmp_path}': No space left on device. A checkpoint that was there" in str(
            caught.value
        )
        monkeypatch.undo()
        assert number_of(tmp_path) == 1
        # Of a part that could not be written nothing is left; one that was whole is, until the next save.
        more = {*tmp_path.iterdir()} - {*files}
        assert [path.stat().st_size for path in more] == ([4000] if 4000 <= room < 16_028 else [])
        for path in more:
            path.unlink()
    checkpoint.save(tmp_path, state(3))
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(tmp_path)
    assert str(caught.value) == f"there is no checkpoint in '{tmp_path}': no checkpoint.json"
    checkpoint.save(tmp_path, state(1))
    (part,) = tmp_path.glob("*.part")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(tmp_path)
    assert str(caught.value) == f"'{part}' has 16,027 bytes; its manifest says 16,028"
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint.load(tmp_path)


def test_every_dtype_and_shape_comes_back(tmp_path: Path) -> None:
    saved = [torch.tensor(3), torch.empty(0, 4), torch.arange(5, dtype=torch.int8), torch.randn(2, 3).half()]
    saved.append(torch.randn(3, 4).t())
    checkpoint.save(tmp_path, saved)
    for before, after in zip(saved, checkpoint.load(tmp_path), strict=True):
        assert before.dtype == after.dtype
        assert torch.equal(before, after)
