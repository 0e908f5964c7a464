"""The file of a run that is going on: what is written, what is read back, and that its failure harms no run."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from aiperf_analysis.live import tail
from aiperf_analysis.live.observer import LiveObserver
from aiperf_analysis.live.place import live_folder, start_ticks
from aiperf_analysis.live.tail import lines_after, live_runs
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Clock()


@pytest.fixture
def observer(clock):
    observer = LiveObserver(clock)
    observer.run_started(RunStarted(targets=("a.one", "a.two"), device="cpu", bundle="/tmp/b"))
    yield observer
    observer.run_finished(RunFinished(path="/tmp/b", exit_code=0))


def only_file():
    (path,) = live_folder().iterdir()
    return path


def test_state_is_written_and_read(observer, clock):
    clock.now += 1
    observer.target_started(TargetStarted(name="a.one", index=1, total=2))
    clock.now += 1
    observer.progress(
        Progress(
            target="a.one",
            phase="sampling",
            implementation="fused",
            samples=30,
            seconds_left=2.5,
            undecided="fused",
            interval=(1.5, 2.0),
        )
    )
    (run,) = live_runs()
    assert run.state == "running"
    expected = {"event": "running", "id": 2, "bundle": "/tmp/b", "device": "cpu", "target": "a.one", "index": 1}
    expected |= {"total": 2, "phase": "sampling", "implementation": "fused", "samples": 30, "seconds_left": 2.5}
    expected |= {"undecided": "fused", "interval": [1.5, 2.0], "pid": os.getpid(), "finished": []}
    assert {name: run.newest[name] for name in expected} == expected


def test_at_most_five_lines_a_second_and_no_finished_target_is_lost(observer, clock):
    for step in range(100):
        clock.now += 0.01
        observer.progress(Progress(target="a.one", phase="sampling", samples=step, seconds_left=1.0))
    observer.target_finished(TargetFinished(name="a.one", verdicts={"fused": "FASTER"}, path="/tmp/b/a.json"))
    observer.run_finished(RunFinished(path="/tmp/b", exit_code=3))
    lines, _ = lines_after(only_file())
    assert len(lines) <= 7
    assert [line["id"] for line in lines] == list(range(len(lines)))
    finished = [one for line in lines for one in line["finished"]]
    assert finished == [{"target": "a.one", "verdicts": {"fused": "FASTER"}, "path": "/tmp/b/a.json"}]
    assert (lines[-1]["event"], lines[-1]["exit_code"]) == ("finished", 3)
    assert live_runs()[0].state == "finished"


def test_a_change_of_phase_keeps_the_last_estimate(observer, clock):
    clock.now += 1
    observer.progress(Progress(target="a.one", phase="sampling", samples=5, seconds_left=4.0))
    clock.now += 1
    observer.progress(Progress(target="a.one", phase="verification"))
    newest = live_runs()[0].newest
    assert (newest["phase"], newest["seconds_left"]) == ("verification", 4.0)


def test_the_file_is_the_users_alone(observer):
    assert live_folder().stat().st_mode & 0o777 == 0o700
    assert only_file().stat().st_mode & 0o777 == 0o600


def test_a_half_line_is_left_for_the_next_read(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"id":0}\n{"id"')
    lines, offset = lines_after(path)
    assert lines == [{"id": 0}]
    with path.open("ab") as file:
        file.write(b":1}\nno json\n[]\n")
    assert lines_after(path, offset)[0] == [{"id": 1}]


def test_a_shorter_file_is_read_from_its_start_and_a_vanished_file_is_empty(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"id":0}\n')
    assert lines_after(path, 500) == ([{"id": 0}], 9)
    path.unlink()
    assert lines_after(path, 9) == ([], 9)


def test_a_run_whose_process_is_gone_died_and_its_file_goes_after_a_while(clock, monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = start_ticks(child.pid)
    live_folder().mkdir(parents=True)
    path = live_folder() / "x.jsonl"
    path.write_text(json.dumps({"event": "running", "pid": child.pid, "start": start}) + "\n")
    assert live_runs()[0].state == "running"
    path.write_text(json.dumps({"event": "running", "pid": child.pid, "start": start - 1}) + "\n")
    assert live_runs()[0].state == "died"  # the number was used again by a later process
    path.write_text(json.dumps({"event": "running", "pid": child.pid, "start": start}) + "\n")
    child.communicate(b"\n")
    assert live_runs()[0].state == "died"
    monkeypatch.setattr(tail, "KEPT_S", -1.0)
    assert live_runs() == []
    assert not path.exists()


def test_no_folder_no_file_and_no_error(clock, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    (tmp_path / "file").write_text("in the way")
    observer = LiveObserver(clock)
    observer.run_started(RunStarted(targets=("a.one",), device="cpu", bundle="/tmp/b"))
    observer.progress(Progress(target="a.one", phase="sampling"))
    observer.run_finished(RunFinished(path="/tmp/b", exit_code=0))
    assert live_runs() == []


def test_a_full_disk_ends_the_writing(observer, clock, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        clock.now += 1
        observer.progress(Progress(target="a.one", phase="sampling"))
    clock.now += 1
    observer.progress(Progress(target="a.one", phase="later"))
    assert len(lines_after(only_file())[0]) == 1


def test_a_removed_folder_ends_nothing(observer, clock):
    shutil.rmtree(live_folder())
    clock.now += 1
    observer.progress(Progress(target="a.one", phase="sampling"))
    assert live_runs() == []
