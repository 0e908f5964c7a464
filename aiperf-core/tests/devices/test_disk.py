"""The disk of the temporary folder: which it is, and its rates."""

import os
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest

from aiperf_core.devices import disk, disk_ceilings
from aiperf_core.devices.measuring import Page

KEYS = {"disk_write_bytes_per_s", "disk_read_bytes_per_s"}
MOUNTS = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:26 / /dev/shm rw,nosuid - tmpfs shm rw
31 22 0:27 / /mnt rw - xfs /dev/sdb rw
32 31 0:28 / /mnt/my\\040disk rw shared:7 - btrfs /dev/sdc rw
33 22 0:29 / /mnt rw - overlay overlay rw
"""


def measured() -> Page:
    page = Page(lambda _: None)
    disk_ceilings.fill(page)
    return page


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(disk_ceilings, "_MOST_BYTES", 16 << 20)
    monkeypatch.setattr(disk_ceilings, "_FORM_S", 0.001)
    monkeypatch.setattr(disk_ceilings, "_ALL_FORMS_S", 0.001)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/home/me", ("ext4", "/dev/vda")),
        ("/dev/shm/x", ("tmpfs", "shm")),
        ("/dev/shmem", ("ext4", "/dev/vda")),
        ("/mnt/other", ("overlay", "overlay")),
        ("/mnt/my disk/x", ("btrfs", "/dev/sdc")),
    ],
)
def test_the_file_system_of_a_folder(
    path: str, found: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(disk, "_MOUNTS", mounts)
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert disk.file_system(path) == found


def test_a_system_without_a_list_of_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_MOUNTS", Path("/nowhere"))
    assert disk.file_system("/tmp") == ("", "")


def test_pages_in_memory_are_counted(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        assert disk.resident_pages(file.fileno()) == 0
        file.write(bytes(3 * 4096 + 1))
        file.flush()
        assert disk.resident_pages(file.fileno()) == 4


def test_the_rates_of_a_disk(folder: Path) -> None:
    page = measured()
    if any("in memory" in why or "page cache" in why for why in page.missing.values()):
        pytest.skip(page.missing["disk_read_bytes_per_s"])
    assert page.figures.keys() == KEYS
    assert all(rate > 1e5 for rate in page.figures.values())
    for how in page.how.values():
        assert f"16 MiB in '{folder}'" in how
    assert list(folder.iterdir()) == []


def test_files_in_memory_have_no_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_ceilings, "file_system", lambda _: ("tmpfs", "shm"))
    page = measured()
    reason = f"temporary files are in memory: '{folder}' is tmpfs; name a folder on a disk in TMPDIR"
    assert (page.figures, page.missing) == ({}, dict.fromkeys(KEYS, reason))


def test_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(disk_ceilings.shutil, "disk_usage", lambda _: usage(40 << 20))  # type: ignore[attr-defined]
    reason = f"'{folder}' has 40 MiB of free space, and 64 MiB are needed; name a folder with more space in TMPDIR"
    assert measured().missing == dict.fromkeys(KEYS, reason)


def test_a_disk_that_fills_up_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    reason = f"no file can be written in '{folder}': No space left on device; name another folder in TMPDIR"
    assert measured().missing == dict.fromkeys(KEYS, reason)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    reason = f"no file can be written in '{folder}': Permission denied; name another folder in TMPDIR"
    assert measured().missing == dict.fromkeys(KEYS, reason)


def test_a_file_that_stays_in_the_page_cache_gives_no_rate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_ceilings, "resident_pages", lambda _: 3)
    monkeypatch.setattr(disk_ceilings, "file_system", lambda _: ("strangefs", "x"))
    reason = f"files in '{folder}' (strangefs on x) stay in the page cache; name a folder on another disk in TMPDIR"
    found = measured()
    assert found.figures == {}
    assert {why[:60] for why in found.missing.values()} == {reason[:60]}


def test_a_file_system_without_direct_transfers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def buffered_only(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", buffered_only)
    monkeypatch.setattr(disk_ceilings, "resident_pages", lambda _: 0)
    page = measured()
    assert page.figures.keys() == KEYS
    assert all(how.startswith("cached, ") for how in page.how.values())
