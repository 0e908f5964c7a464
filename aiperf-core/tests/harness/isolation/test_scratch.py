"""The folder of a candidate."""

import math
import os
import sys
import threading
from pathlib import Path

import pytest

from aiperf_core import work_folder
from aiperf_core.harness.isolation.scratch import Scratch, disk_bytes


def test_it_is_removed_with_all_that_is_in_it() -> None:
    found = Scratch(lambda: None)
    (found.path / "within").mkdir()
    (found.path / "within" / "file").write_text("x")
    found.close()
    assert not found.path.exists()


def test_it_is_removed_when_who_writes_to_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed may write until it ends."""
    delete, left = work_folder._delete, [True, True, False]
    monkeypatch.setattr(work_folder, "_delete", lambda folder: None if left.pop(0) else delete(folder))
    found = Scratch(lambda: None)
    found.close()
    assert not found.path.exists()


def test_too_much_in_it_is_told_once() -> None:
    told = threading.Semaphore(0)
    found = Scratch(told.release, most_bytes=100_000)
    try:
        (found.path / "small").write_bytes(b"x" * 50_000)
        assert not told.acquire(timeout=1.0)
        assert not found.full
        (found.path / "within").mkdir()
        (found.path / "within" / "large").write_bytes(b"x" * 200_000)
        assert told.acquire(timeout=5.0)
        assert found.full
        assert not told.acquire(timeout=1.0)
    finally:
        found.close()


def test_holes_take_no_disk(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert disk_bytes(tmp_path) < 1 << 20
    (tmp_path / "full").write_bytes(b"x" * (1 << 20))
    assert 1 << 20 <= disk_bytes(tmp_path) < 2 << 20


def test_folders_deeper_than_any_path_are_not_counted_and_removed() -> None:
    told = threading.Semaphore(0)
    found = Scratch(told.release)
    try:
        place = os.open(found.path, os.O_DIRECTORY)
        for depth in range(3 * sys.getrecursionlimit()):
            if depth == sys.getrecursionlimit():
                assert disk_bytes(found.path) < 1 << 30
            os.mkdir("d", dir_fd=place)
            above, place = place, os.open("d", os.O_DIRECTORY, dir_fd=place)
            os.close(above)
        os.close(place)
        assert disk_bytes(found.path) == math.inf
        assert told.acquire(timeout=5.0)
    finally:
        found.close()
    assert not found.path.exists()
