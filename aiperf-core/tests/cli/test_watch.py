"""`aiperf watch` and `aiperf judge --watch`, as a user calls them: files are saved, verdicts follow, Ctrl-C ends."""

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import attrs
import pytest
from click.testing import CliRunner
from rich.text import Text

from aiperf_core.cli import watching
from aiperf_core.cli.main import Shell
from aiperf_core.cli.screen import Screen
from aiperf_core.cli.watching import Files, Watch
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import SkippedTarget, Verdict

HONEST = """
import torch

class Implementation:
    def run(self, x):
        return x.sum(-1)
"""
ZEROS = HONEST.replace("sum(-1)", "new_zeros(len(x))")
BROKEN = "class Implementation(\n"


def test_a_changed_a_new_and_a_removed_file_are_seen(tmp_path: Path) -> None:
    files = Files([tmp_path])
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "__pycache__").mkdir()
    before = files.state()
    assert [*before] == [tmp_path / "a.py"]
    (tmp_path / "__pycache__" / "a.py").write_text("not watched")
    (tmp_path / "notes.txt").write_text("not watched")
    assert files.state() == before
    (tmp_path / "b.cu").write_text("2")
    assert files.wait(before) == [tmp_path / "b.cu"]
    (tmp_path / "a.py").unlink()
    assert files.wait(before) == [tmp_path / "a.py", tmp_path / "b.cu"]


def test_a_file_that_is_still_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SETTLED_S", 0.3)  # a busy machine writes late
    path = tmp_path / "a.py"
    path.write_text("")
    files = Files([path])
    before = files.state()

    def write() -> None:
        for length in range(1, 8):
            path.write_text("x" * length)
            time.sleep(0.03)

    writer = threading.Thread(target=write)
    writer.start()
    assert files.wait(before) == [path]
    assert path.read_text() == "x" * 7
    writer.join()


class Terminal(io.StringIO):
    """A terminal that keeps its text."""

    def isatty(self) -> bool:
        return True


def test_a_target_that_cannot_be_used_has_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stream, run = Terminal(), Mock(results=[SkippedTarget("acme.sort", Verdict.FAILED, "importing it raised")])
    screen = Screen(stream, 80)
    watch = Watch("acme.sort", Files([]), Mock(), screen, screen, None, quiet=True)
    watch._show(run, Text("12:00:00 acme.sort  FAILED"))
    assert "importing it raised" in stream.getvalue()
    assert "speedup" not in stream.getvalue()


def test_a_verdict_names_the_edited_implementations_and_what_became_of_them(tmp_path: Path) -> None:
    """Not the best one, and none where the files are those of before."""
    rows = example.rows()
    name = rows[1].name
    invalid = attrs.evolve(example.result(), rows=[rows[0], attrs.evolve(rows[1], verdict=Verdict.INVALID), rows[2]])
    edits = Mock(side_effect=[[], [name], [name], [name, "tiled"], []])
    stream = io.StringIO()
    screen = Screen(stream, 200)
    results = [[example.result()], [invalid], [SkippedTarget("ch07.memory_access", Verdict.FAILED, "no compiler")]]
    runs = [Mock(results=found, execute=Mock(return_value=0)) for found in [*results, results[0], results[0]]]
    watch = Watch("a.b", Files([tmp_path]), Mock(side_effect=runs), screen, screen, None, quiet=True, edits=edits)
    for _ in runs:
        watch._once()
    lines = [re.sub(r"^\S+ |  \(.*\)$", "", line.plain) for line in watch._seen]
    assert lines == [
        "ch07.memory_access  wide 8.67x FASTER, 1 INVALID, 1 FAILED",
        f"{name} 7.99x -> INVALID",
        f"{name} 7.99x -> INVALID -> FAILED",
        f"{name} 7.99x -> INVALID -> FAILED -> 7.99x FASTER, tiled is not measured on cuda",
        "ch07.memory_access  wide 8.67x FASTER, 1 INVALID, 1 FAILED",
    ]


class Watching:
    """A process that watches, with its output so far."""

    def __init__(self, arguments: list[str], folder: Path, cache: Path) -> None:
        self.temporary = Path(tempfile.mkdtemp(prefix="tmp-", dir=folder))
        environment = {**os.environ, "AIPERF_CACHE_DIR": str(cache), "TMPDIR": str(self.temporary)}
        command = [sys.executable, "-m", "aiperf_core", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.text = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def until(self, word: str, count: int = 1) -> None:
        """Wait until a word stands so many times in the output."""
        deadline = time.monotonic() + 240
        while self.text.count(word) < count:
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self.close()
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., Watching]


@pytest.fixture
def cache(new_cache: Callable[[], Path]) -> Path:
    return new_cache()


@pytest.fixture
def start(tmp_path: Path, cache: Path) -> Iterator[Start]:
    started: list[Watching] = []

    def begin(*arguments: str) -> Watching:
        started.append(Watching([*arguments], tmp_path, cache))
        return started[-1]

    yield begin
    for one in started:
        one.close()


SMALL = ("--device", "cpu", "--size", "smoke", "--budget", "0.02")


def test_a_candidate_is_judged_whenever_it_is_saved(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "candidate.py"
    file.write_text(ZEROS)
    watching = start("judge", "candidate.py", "--watch", "--target", "practice.sum_rows", *SMALL)
    watching.until("Ctrl-C ends", 1)
    assert "practice.sum_rows" in watching.text
    assert "output.wrong_values" in watching.text
    file.write_text(BROKEN)
    watching.until("Ctrl-C ends", 2)
    said = " ".join(watching.text.split())
    assert re.search(r" \d\d:\d\d:\d\d '\S*candidate.py', line 1, column 21: does not parse", said), said
    file.unlink()
    watching.until("Ctrl-C ends", 3)
    assert "'candidate.py' does not exist; give the Python file of a candidate" in " ".join(watching.text.split())
    file.write_text(HONEST)
    watching.until("Ctrl-C ends", 4)
    assert watching.interrupt() == 0
    assert watching.text.count("output.wrong_values") == 1
    assert "Traceback" not in watching.text
    (kept,) = (tmp_path / "artifacts/runs").iterdir()
    assert Bundle.open(kept).manifest.complete
    assert [*watching.temporary.iterdir()] == []


def test_a_target_is_measured_again_when_its_file_is_saved(start: Start, tmp_path: Path) -> None:
    """Touching the file suffices."""
    from aiperf_core.practice import sum_rows

    watching = start("watch", "practice.sum_rows:library", "--out", "kept", *SMALL)
    watching.until("Ctrl-C ends", 1)
    file = Path(str(sum_rows.__file__))
    stat = file.stat()
    try:
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        watching.until("Ctrl-C ends", 2)
        assert watching.interrupt() == 0
    finally:
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "saved: sum_rows.py" in watching.text
    assert [*Bundle.open(tmp_path / "kept").targets] == ["practice.sum_rows"]


def test_a_watcher_takes_its_turn_and_keeps_nothing_without_a_verdict(
    start: Start, tmp_path: Path, cache: Path
) -> None:
    import fcntl

    (tmp_path / "candidate.py").write_text(BROKEN)
    with (cache / "watch.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        watching = start("judge", "candidate.py", "--watch", "--target", "practice.sum_rows", *SMALL)
        watching.until("another watcher measures on this machine; waiting for its end")
        assert "does not parse" not in watching.text
        fcntl.flock(lock, fcntl.LOCK_UN)
        watching.until("Ctrl-C ends")
    assert watching.interrupt() == 1
    assert "interrupted before the first verdict; no results are kept" in watching.text
    assert not (tmp_path / "artifacts").exists()


def test_two_watchers_of_one_file_both_answer(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "candidate.py"
    file.write_text(BROKEN)
    both = [start("judge", "candidate.py", "--watch", "--target", "practice.sum_rows", *SMALL) for _ in range(2)]
    for one in both:
        one.until("Ctrl-C ends", 1)
    file.write_text(ZEROS)
    for one in both:
        one.until("Ctrl-C ends", 2)
        assert "output.wrong_values" in one.text
    for one in both:
        assert one.interrupt() == 0
        assert "Traceback" not in one.text
        assert [*one.temporary.iterdir()] == []
    assert len([*(tmp_path / "artifacts/runs").iterdir()]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("watch", "practice.*"), "aiperf watch takes one target, such as practice.softmax; 'practice.*' is 3."),
        (("judge", "--target", "practice.softmax"), "Give CANDIDATE.py, with --watch or without, or --serve SOCKET."),
        (
            ("judge", "a.py", "--serve", "s", "--target", "practice.softmax"),
            "Give CANDIDATE.py, with --watch or without, or --serve SOCKET.",
        ),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], message: str) -> None:
    refused = CliRunner().invoke(Shell(load_plugins()), arguments)
    assert refused.exit_code == 2
    assert message in " ".join(refused.stderr.split())
