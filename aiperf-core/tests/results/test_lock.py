"""One process at a time writes a bundle."""

import os
import signal
import subprocess
import sys

import pytest

from aiperf_core.errors import BundleError
from aiperf_core.results import lock


def test_it_is_held_by_one(tmp_path):
    with (
        lock.held(tmp_path, required=True),
        pytest.raises(BundleError, match=f"is being written by process {os.getpid()} on "),
        lock.held(tmp_path, required=True),
    ):
        pass
    with lock.held(tmp_path, required=True):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_holds_nothing(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from aiperf_core.results import lock\n"
        "with lock.held(Path(sys.argv[1]), required=True): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(BundleError, match=f"process {holder.pid} on "), lock.held(tmp_path, required=True):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert (tmp_path / lock.FILE).exists()
    with lock.held(tmp_path, required=True):
        pass


def test_a_file_that_was_removed_meanwhile_is_not_the_lock(tmp_path, monkeypatch):
    opened = lock._opened

    def removed_meanwhile(path):
        descriptor = opened(path)
        path.unlink()
        monkeypatch.setattr(lock, "_opened", opened)
        return descriptor

    monkeypatch.setattr(lock, "_opened", removed_meanwhile)
    with lock.held(tmp_path, required=True):
        assert (tmp_path / lock.FILE).exists()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / lock.FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="cannot lock"), lock.held(folder, required=True):
        pass
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_file_systems_without_locks(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(lock.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    with lock.held(tmp_path, required=False):
        pass
    with pytest.raises(BundleError) as caught, lock.held(tmp_path, required=True):
        pass
    assert str(caught.value) == (
        f"cannot lock '{tmp_path}': No locks available. Move it to a file system with locks first, so that no two "
        "processes write it."
    )


def test_a_full_disk_is_locked_too(tiny_disk, tmp_path):
    """The name of the holder does not fit in it."""
    folder = tiny_disk(tmp_path / "disk", 1 << 16)
    (folder / "filler").write_bytes(bytes(1 << 16))
    with (
        lock.held(folder, required=True),
        pytest.raises(lock.HeldError, match="is being written by another process"),
        lock.held(folder, required=True),
    ):
        pass


def test_a_folder_that_cannot_be_locked_is_not_held(tmp_path):
    with pytest.raises(BundleError) as caught, lock.held(tmp_path / "none", required=False):
        pass
    assert not isinstance(caught.value, lock.HeldError)
