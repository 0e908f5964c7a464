import os
from pathlib import Path

import pytest

from aiperf_core import atomic


def test_a_file_is_replaced_whole(tmp_path):
    file = tmp_path / "a.json"
    atomic.write(file, b"one")
    atomic.write(file, b"two")
    assert file.read_bytes() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, failing, error):
    file = tmp_path / "a.json"
    atomic.write(file, b"one")

    def fail(*_):
        raise error

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(type(error)):
        atomic.write(file, b"two")
    assert file.read_bytes() == b"one"
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


def test_the_bytes_reach_the_disk_before_the_name_does(tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *arguments, name=name, real=real: (order.append(name), real(*arguments)))
    atomic.write(tmp_path / "a.json", b"one")
    assert order == ["fsync", "replace", "fsync"]


def test_a_link_is_replaced_and_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"mine")
    link = tmp_path / "a.json"
    link.symlink_to(secret)
    atomic.write(link, b"new")
    assert secret.read_bytes() == b"mine"
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"


def test_a_device_is_written_and_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: pytest.fail("a device would be gone"))
    atomic.write(Path("/dev/null"), b"one")
    (tmp_path / "devices").symlink_to("/dev")
    with pytest.raises(OSError, match="No space left on device"):
        atomic.write(tmp_path / "devices/full", b"one")


def test_the_usual_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        atomic.write(tmp_path / "a.json", b"one")
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640
