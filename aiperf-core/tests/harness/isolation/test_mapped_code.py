import ctypes
import os
import shutil
from pathlib import Path

import pytest

from aiperf_core.harness.isolation.mapped_code import Libraries, Mapped, mapped

MAPS = """\
55e49bb82000-55e49bb86000 r--p 00000000 fe:00 260386                     /usr/bin/python3.11
7f0000000000-7f0000010000 r-xp 00001000 fe:00 11 {folder}/libcuda.so.570.86.15
7f0000010000-7f0000020000 rw-p 00011000 fe:00 11 {folder}/libcuda.so.570.86.15
7f0000020000-7f0000030000 r-xp 00000000 fe:00 12 {folder}/_socket.cpython-311-x86_64-linux-gnu.so
7f0000020000-7f0000030000 r-xp 00000000 fe:00 12 /usr/lib/python3/site-packages/fast.cpython-311.so
7f0000030000-7f0000040000 r-xp 00000000 fe:00 13 /gone/lib with spaces.so.1 (deleted)
7f0000040000-7f0000050000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0                          [stack]
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "root").symlink_to("/")
    (tmp_path / "libcuda.so.570.86.15").write_bytes(b"a driver")
    (tmp_path / "7" / "maps").write_text(MAPS.format(folder=tmp_path))
    return tmp_path


def libraries(pid: int, proc: Path) -> Libraries:
    found = mapped([pid], proc)
    assert found is not None
    return found.libraries


def test_compiled_modules_of_no_package_are_extensions(proc: Path) -> None:
    found = mapped([7], proc)
    assert found is not None
    assert found.extensions == [f"{proc}/_socket.cpython-311-x86_64-linux-gnu.so"]


def test_libraries_are_told_by_name_and_build(proc: Path) -> None:
    found = libraries(7, proc)
    assert found.keys() == {"libcuda", "lib with spaces"}
    assert [*found["libcuda"].values()] == [f"{proc}/libcuda.so.570.86.15"]
    assert found["lib with spaces"] == {"inode fe:00 13": "/gone/lib with spaces.so.1 (deleted)"}


def test_a_build_is_told_by_its_content_and_size(proc: Path) -> None:
    (before,) = libraries(7, proc)["libcuda"]
    library = proc / "libcuda.so.570.86.15"
    library.write_bytes(b"a driver, rebuilt")
    (after,) = libraries(7, proc)["libcuda"]
    assert before != after
    library.write_bytes(b"a driver")
    assert [*libraries(7, proc)["libcuda"]] == [before]


def test_who_is_gone_has_none(proc: Path) -> None:
    assert mapped([1234], proc) is None
    assert mapped([], proc) is None


def test_a_library_that_this_process_loads_is_seen(tmp_path: Path) -> None:
    before = (mapped([os.getpid()]) or Mapped()).libraries
    source = next(path for builds in before.values() for path in builds.values() if Path(path).is_file())
    copy = tmp_path / "libcopied.so.3"
    shutil.copy(source, copy)
    ctypes.CDLL(str(copy))
    after = (mapped([os.getpid()]) or Mapped()).libraries
    assert [*after["libcopied"].values()] == [str(copy)]
    name = next(name for name, builds in before.items() if source in builds.values())
    assert after["libcopied"].keys() <= before[name].keys(), "the same build under another name"
