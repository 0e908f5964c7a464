"""The folder of a candidate, and what its processes may take."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiperf_core import work_folder
from aiperf_core.harness.isolation.resource_use import disk_use
from aiperf_core.harness.isolation.scratch import Scratch

MIB = 1 << 20
# Programs that take disk or memory where no name leads to it, and then wait. Of each 48 MiB, if not told otherwise.
PRELUDE = """
import mmap, os, signal, sys
MIB = 1 << 20
def wait():
    print("ready", flush=True)
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)
def unnamed(open_file, mib=48):
    file = open_file()
    os.write(file, bytes(mib * MIB))
    return file
def removed():
    file = os.open("removed", os.O_RDWR | os.O_CREAT)
    os.unlink("removed")
    return file
def shared(touch=48):
    memory = mmap.mmap(-1, 48 * MIB)
    memory[:touch * MIB] = bytes(touch * MIB)
    return memory
"""
TAKES = {
    "a removed file": ("kept = unnamed(removed)", "disk"),
    "a removed file, from a child": ("kept = unnamed(removed)\nif os.fork(): os.close(kept)", "disk"),
    "a file that never had a name": ("kept = unnamed(lambda: os.open('.', os.O_TMPFILE | os.O_RDWR))", "disk"),
    "a removed file that is mapped": (
        "file = unnamed(removed)\nkept = mmap.mmap(file, 48 * MIB)\nos.close(file)",
        "disk",
    ),
    "named files": ("for name in 'abc': open(name, 'wb').write(bytes(16 * MIB))", "disk"),
    "a file in memory": ("kept = unnamed(lambda: os.memfd_create('x'))", "memory"),
    "a file in memory that is mapped": (
        "file = unnamed(lambda: os.memfd_create('x'))\nkept = mmap.mmap(file, 48 * MIB)\nos.close(file)",
        "memory",
    ),
    "shared memory": ("kept = shared()", "memory"),
    "shared memory that it seems to have given back": ("kept = shared()\nkept.madvise(mmap.MADV_DONTNEED)", "memory"),
    "children": ("for _ in range(3):\n  if not os.fork():\n    kept = b'x' * (16 * MIB)\n    wait()", "memory"),
}
TAKES_NOTHING = {
    "children that share its memory": "kept = b'x' * (24 * MIB)\nfor _ in range(3):\n  os.fork() or wait()",
    "a file in memory with a hole": "os.truncate(os.memfd_create('x'), 1 << 40)",
    "a file that it closed": "for _ in range(2): os.close(unnamed(removed, 32))",
    "memory that it gave back": "kept = b'x' * (40 * MIB)\ndel kept\nkept = b'y' * (40 * MIB)",
}
SAID = {
    "disk": "its files exceed the 0 GiB of disk that a candidate may use, or are in folders too deep to count",
    "memory": " GiB of memory, of the 0.04 GiB that a candidate may take",
    "files": "it has more files than the 50 that a candidate may have",
}


@pytest.fixture
def scratch() -> Iterator[Callable[..., Scratch]]:
    """Makes scratch folders, which are closed at the end."""
    made: list[Scratch] = []

    def make(on_overuse: Callable[[], None] = lambda: None, **most: Any) -> Scratch:
        made.append(Scratch(on_overuse, **most))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def running() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts programs that lead a group of their own and wait, in a folder that they are given."""
    started: list[subprocess.Popen[str]] = []

    def run(found: Scratch, text: str) -> "subprocess.Popen[str]":
        program = "import os\nos.chdir(input())\n" + PRELUDE + text + "\nwait()"
        command = [sys.executable, "-I", "-S", "-c", program]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, start_new_session=True, **pipes))
        print(found.new(started[-1].pid), file=started[-1].stdin, flush=True)
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield run
    for one in started:
        os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


@pytest.mark.parametrize("what", TAKES)
def test_what_has_no_name_counts(scratch: Callable[..., Scratch], running: Callable[..., Any], what: str) -> None:
    told = threading.Semaphore(0)
    found = scratch(told.release, most_bytes=40 * MIB, most_memory_bytes=40 * MIB)
    text, kind = TAKES[what]
    running(found, text)
    assert told.acquire(timeout=10.0)
    assert found.overuse.endswith(SAID[kind])


@pytest.mark.parametrize("what", TAKES_NOTHING)
def test_what_is_shared_or_given_back_counts_once_or_not(
    scratch: Callable[..., Scratch], running: Callable[..., Any], what: str
) -> None:
    found = scratch(most_bytes=40 * MIB, most_memory_bytes=60 * MIB)
    running(found, TAKES_NOTHING[what])
    time.sleep(1.0)
    assert found.overuse == ""


def test_memory_that_the_harness_lends_is_not_the_candidates(
    scratch: Callable[..., Scratch], running: Callable[..., Any]
) -> None:
    lent = os.memfd_create("inputs")
    os.write(lent, bytes(48 * MIB))
    found = scratch(most_memory_bytes=40 * MIB)
    running(found, f"kept = os.open('/proc/{os.getpid()}/fd/{lent}', os.O_RDWR)\nkept = mmap.mmap(kept, 48 * MIB)")
    time.sleep(1.0)
    os.close(lent)
    assert found.overuse == ""


def test_where_the_first_process_has_ended_the_others_are_ended(
    scratch: Callable[..., Scratch], running: Callable[..., Any]
) -> None:
    first = running(scratch(), "if not os.fork(): wait()")
    assert first.stdout.readline() == "ready\n"  # both wait
    first.kill()
    first.wait()
    assert first.stdout.read() == ""  # the end of the other one closes the pipe


SUPERVISOR = """
import subprocess, sys
from aiperf_core.harness.isolation.scratch import Scratch
found = Scratch(lambda: None)
stays = "import os, signal; os.fork(); os.fork(); signal.pause()"
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", stays], start_new_session=True, stdout=sys.stderr)
open(found.new(child.pid) + "/kept", "w").close()
print(found.path, child.pid, flush=True)
sys.stdin.read()
"""


def test_where_the_supervisor_is_killed_nothing_is_left() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR], text=True, start_new_session=True, **pipes) as run:
        path, group = run.stdout.readline().split()
        os.killpg(run.pid, signal.SIGSTOP)
        run.kill()
    deadline = time.monotonic() + 10.0
    while lives(int(group)) or Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_files_are_limited_in_number(scratch: Callable[..., Scratch]) -> None:
    told = threading.Semaphore(0)
    found = scratch(told.release, most_files=50)
    for number in range(26):
        (found.path / f"folder{number}").mkdir()
        (found.path / f"folder{number}" / "empty").touch()
    assert told.acquire(timeout=5.0)
    assert found.overuse == SAID["files"]


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


def test_too_much_in_it_is_told_once(scratch: Callable[..., Scratch]) -> None:
    told = threading.Semaphore(0)
    found = scratch(told.release, most_bytes=100_000)
    (found.path / "small").write_bytes(b"x" * 50_000)
    assert not told.acquire(timeout=1.0)
    assert found.overuse == ""
    (found.path / "within").mkdir()
    (found.path / "within" / "large").write_bytes(b"x" * 200_000)
    assert told.acquire(timeout=5.0)
    assert found.overuse == SAID["disk"]
    assert not told.acquire(timeout=1.0)


def test_holes_take_no_disk(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert disk_use(tmp_path).bytes < 1 << 20
    (tmp_path / "full").write_bytes(b"x" * (1 << 20))
    assert 1 << 20 <= disk_use(tmp_path).bytes < 2 << 20


def test_folders_deeper_than_any_path_are_not_counted_and_removed() -> None:
    told = threading.Semaphore(0)
    found = Scratch(told.release)
    try:
        place = os.open(found.path, os.O_DIRECTORY)
        for depth in range(3 * sys.getrecursionlimit()):
            if depth == sys.getrecursionlimit():
                assert disk_use(found.path).bytes < 1 << 30
            os.mkdir("d", dir_fd=place)
            above, place = place, os.open("d", os.O_DIRECTORY, dir_fd=place)
            os.close(above)
        os.close(place)
        assert disk_use(found.path).bytes == math.inf
        assert told.acquire(timeout=5.0)
    finally:
        found.close()
    assert not found.path.exists()
