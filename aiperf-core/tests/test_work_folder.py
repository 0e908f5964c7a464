"""Temporary folders are removed, whatever becomes of their processes."""

import os
import tempfile
from pathlib import Path

import pytest

from aiperf_core import work_folder
from aiperf_core.work_folder import WorkFolder


def test_a_folder_whose_owner_was_killed_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held, dead, young = WorkFolder(), tmp_path / "aiperf-work-dead", tmp_path / "aiperf-work-young"
    for folder in (dead, young):
        (folder / "within").mkdir(parents=True)
    for folder in (held.path, dead):
        os.utime(folder, (1.0, 1.0))
    other = WorkFolder()
    assert {*tmp_path.iterdir()} == {held.path, young, other.path}
    held.close()
    other.close()
    assert [*tmp_path.iterdir()] == [young]


def test_a_folder_is_removed_while_somebody_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    removed, times = work_folder.shutil.rmtree, []

    def late(path: Path, ignore_errors: bool) -> None:
        removed(path, ignore_errors=ignore_errors)
        times.append(path)
        if len(times) < 3:  # a process that is ending makes one more file
            path.mkdir()
            (path / "late").touch()

    monkeypatch.setattr(work_folder.shutil, "rmtree", late)
    work_folder.remove(folder)
    assert not folder.exists()
    assert len(times) == 3
