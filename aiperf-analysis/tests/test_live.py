"""The file of a run that is going on: what is written, what is read back, and that its failure harms no run."""

import itertools
import json
import os
import shutil
import subprocess
import sys

import pytest

from aiperf_analysis.live import observer as observer_module
from aiperf_analysis.live import shown, tail
from aiperf_analysis.live.observer import LiveObserver
from aiperf_analysis.live.place import live_folder, start_ticks
from aiperf_analysis.live.tail import Tail, live_run, live_runs, newest_line
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
    lines = Tail(only_file()).read()
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


def line(number, **more):
    return json.dumps({"id": number, **more}).encode() + b"\n"


def numbers(lines):
    return [one["id"] for one in lines]


def test_a_half_line_is_left_for_the_next_read(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(line(0) + b'{"id"')
    tail = Tail(path)
    assert numbers(tail.read()) == [0]
    with path.open("ab") as file:
        file.write(b':1}\nno json\n[]\n{"id":"2"}\n{"id":true}\n{}\n' + b"[" * 100_000 + b"\n" + line(3))
    assert numbers(tail.read()) == [1, 3]
    assert tail.read() == []


def test_a_reader_starts_after_a_line_and_gets_no_line_twice(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(line(0) + line(1) + line(2))
    assert numbers(Tail(path, last=1).read()) == [2]
    assert numbers(Tail(path, last=9).read()) == []


def test_a_file_that_is_shorter_or_another_is_read_from_its_start_and_a_vanished_file_is_empty(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(line(0) + line(1))
    tail = Tail(path)
    assert numbers(tail.read()) == [0, 1]
    path.write_bytes(line(5))
    assert numbers(tail.read()) == [5]
    (tmp_path / "other").write_bytes(line(4) + line(5) + line(6))
    (tmp_path / "other").rename(path)
    assert numbers(tail.read()) == [6]
    path.unlink()
    assert tail.read() == []


def test_a_line_that_is_longer_than_a_read_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(tail, "_LONGEST_READ", 100)
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"x" * 250 + b"\n" + line(7))
    follower = Tail(path)
    assert [numbers(follower.read()) for _ in range(4)] == [[], [], [7], []]


@pytest.mark.parametrize("end", [b"", b'{"id":'])
@pytest.mark.parametrize("before", [0, 10, 3_000])
def test_the_newest_line_stands_at_the_end_of_a_file_of_any_length(tmp_path, monkeypatch, before, end):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(line(one, text="x" * 50) for one in range(before)) + line(before, text="y" * 100) + end)
    assert newest_line(path)["id"] == before
    monkeypatch.setattr(tail, "_LAST_BYTES", 60)  # shorter than a line
    assert newest_line(path)["id"] == before
    assert newest_line(tmp_path / "none") == {}
    monkeypatch.setattr(tail, "_LONGEST_READ", 60)
    assert newest_line(path) == {}


def test_the_file_stays_small_and_no_reader_loses_a_target(observer, clock, monkeypatch):
    monkeypatch.setattr(observer_module, "MOST_BYTES", 4_000)
    tail, seen, sizes = Tail(only_file()), [], []
    late = []
    for step in range(200):
        if step % 20 == 0:
            name = f"a.{step}"
            observer.target_started(TargetStarted(name=name, index=1 + step // 20, total=10))
        clock.now += 1
        interval = (1.0, 2.0 - step / 1000)
        observer.progress(
            Progress(target=name, phase="sampling", seconds_left=1.0, undecided="fused", interval=interval, block=step)
        )
        if step % 20 == 19:
            clock.now += 1
            observer.target_finished(TargetFinished(name=name, verdicts={"fused": "FASTER"}, path=f"/{name}"))
        seen += tail.read()
        sizes.append(only_file().stat().st_size)
    assert max(sizes) < 12_000
    assert sum(one < before for before, one in itertools.pairwise(sizes)) > 5  # it was started anew
    assert numbers(seen) == list(range(seen[-1]["id"] + 1))
    late = Tail(only_file()).read()
    assert len(late) < len(seen) / 5
    for lines in (seen, late):
        finished = [one["target"] for line in lines for one in line["finished"]]
        assert list(dict.fromkeys(finished)) == [f"a.{step}" for step in range(0, 200, 20)]
    first = next(line for line in seen if "course" in line)
    assert [first["target"]] + first["course"][-1] == [first["target"], "fused", first["block"], *first["interval"]]
    assert live_folder().stat().st_mode & 0o777 == 0o700
    assert [one.suffix for one in live_folder().iterdir()] == [".jsonl"]


def test_the_kept_course_of_an_interval_and_the_kept_targets_are_bounded(observer, clock, monkeypatch):
    monkeypatch.setattr(observer_module, "MOST_BYTES", -1)
    observer.target_started(TargetStarted(name="a.one", index=1, total=2))
    for step in range(600):
        observer.target_finished(TargetFinished(name=f"a.{step}", verdicts={}, path=""))
        clock.now += 1
        interval = (1.0, 2.0 - step / 1000)
        observer.progress(
            Progress(target="a.one", phase="sampling", seconds_left=1.0, undecided="x", interval=interval, block=step)
        )
    (line,) = Tail(only_file()).read()
    blocks = [one[1] for one in line["course"]]
    assert 100 <= len(blocks) <= 201
    assert (blocks[0], blocks[-1]) == (0, 599)
    assert blocks == sorted(blocks)
    assert len(line["finished"]) == 500
    assert line["finished"][-1]["target"] == "a.599"


def test_the_state_of_the_device_is_written(observer, clock):
    clock.now += 1
    observer.progress(
        Progress(
            target="a.one", phase="sampling", seconds_left=2.0, share=0.5, block=8, round=1, rounds=2, wanted=0.01,
            clock_hz=1.98e9, temperature_c=61.0, throttled=("sw_thermal",),
        )
    )  # fmt: skip
    newest = live_runs()[0].newest
    expected = {"share": 0.5, "block": 8, "round": 1, "rounds": 2, "wanted": 0.01, "clock_hz": 1.98e9}
    expected |= {"temperature_c": 61.0, "throttled": ["sw_thermal"]}
    assert {name: newest[name] for name in expected} == expected


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
    assert live_run("x").state == "running"
    assert live_run("../live/x") is None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken notice
    assert live_runs()[0].state == "died"
    child.wait()
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
    assert len(Tail(only_file()).read()) == 1


def test_a_removed_folder_ends_nothing(observer, clock):
    shutil.rmtree(live_folder())
    clock.now += 1
    observer.progress(Progress(target="a.one", phase="sampling"))
    assert live_runs() == []


def test_a_run_that_has_ended_is_in_no_phase_and_has_nothing_left():
    newest = {"target": "ch07.x", "phase": "verification: resample", "seconds_left": 0.365, "samples": 40, "share": 0.9}
    ended, running = (shown.cells_of("a", state, newest) for state in ("finished", "running"))
    assert (ended["target"], ended["phase"], ended["samples"].value) == ("ch07.x", "", 40)
    assert (ended["left"].value, ended["left"].reason) == (None, "the run has ended")
    assert (ended["clock"].value, ended["clock"].reason) == (None, "the run has ended")
    assert (running["phase"], running["clock"].reason) == ("verification: resample", "not known yet")
    assert (shown.share_of("finished", newest), shown.share_of("running", newest)) == (1.0, 0.9)
