"""The folder of a candidate."""

import threading
from pathlib import Path

from aiperf_core.harness.scratch import Scratch, disk_bytes


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
