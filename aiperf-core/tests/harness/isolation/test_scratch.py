"""The folder of a candidate."""

import math
import os
import sys
import threading
from pathlib import Path

from aiperf_core.harness.isolation.scratch import Scratch, disk_bytes


def test_it_is_removed_with_all_that_is_in_it() -> None:
    scratch = Scratch(lambda: None)
    (scratch.path / "within").mkdir()
    (scratch.path / "within" / "file").write_text("x")
    scratch.close()
    assert not scratch.path.exists()


def test_too_much_in_it_is_told_once() -> None:
    told = threading.Semaphore(0)
    scratch = Scratch(told.release, most_bytes=100_000)
    try:
        (scratch.path / "small").write_bytes(b"x" * 50_000)
        assert not told.acquire(timeout=1.0)
        assert not scratch.full
        (scratch.path / "within").mkdir()
        (scratch.path / "within" / "large").write_bytes(b"x" * 200_000)
        assert told.acquire(timeout=5.0)
        assert scratch.full
        assert not told.acquire(timeout=1.0)
    finally:
        scratch.close()


def test_holes_take_no_disk(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert disk_bytes(tmp_path) < 1 << 20
    (tmp_path / "full").write_bytes(b"x" * (1 << 20))
    assert 1 << 20 <= disk_bytes(tmp_path) < 2 << 20


def test_folders_deeper_than_any_path_are_not_counted_and_removed() -> None:
    told = threading.Semaphore(0)
    scratch = Scratch(told.release)
    try:
        place = os.open(scratch.path, os.O_DIRECTORY)
        for depth in range(3 * sys.getrecursionlimit()):
            if depth == sys.getrecursionlimit():
                assert disk_bytes(scratch.path) < 1 << 30
            os.mkdir("d", dir_fd=place)
            above, place = place, os.open("d", os.O_DIRECTORY, dir_fd=place)
            os.close(above)
        os.close(place)
        assert disk_bytes(scratch.path) == math.inf
        assert told.acquire(timeout=5.0)
    finally:
        scratch.close()
    assert not scratch.path.exists()
