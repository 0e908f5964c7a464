"""The folder of a fleet: full, slow, used by two processes at once, and left behind by a process that was killed.

Tasks are processes of the engine `here`; `full` and `unkept` disks are real file systems of a few pages.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fleet_command import PAGE, Filled, bundles, endings, interrupt, resume, run, state, suite_of

from aiperf_fleet import running

# Pages of what a task of the stub delivers; its bundle takes 4.
DELIVERED = 7


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """The lock of a machine that measures for this test alone."""
    monkeypatch.setenv("AIPERF_CI_LOCK", str(tmp_path / "lock"))


class Started:
    """`aiperf fleet run` in a process of its own."""

    def __init__(self, suite):
        Path("suite.toml").write_text(suite)
        line = ["fleet", "run", "suite.toml", "--out", "f", "--python", "stub/python", "--poll", "0.05"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aiperf_core", *line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.printed = ""

    def says(self, text):
        """Read what it prints up to a line with a text."""
        for line in self.process.stdout:
            self.printed += line
            if text in line:
                return
        pytest.fail(f"{text!r} is not in: {self.printed}")

    def end(self):
        """Wait for its end; its exit code."""
        self.printed += self.process.communicate(timeout=60)[0]
        return self.process.returncode


@pytest.fixture
def start():
    """Starts fleets. Those that a failed test leaves are ended."""
    started = []

    def make(suite):
        started.append(Started(suite))
        return started[-1]

    yield make
    for one in started:
        one.process.kill()
        one.process.communicate()


def lines_of(name):
    path = Path("stub", name)
    return path.read_text().count("\n") if path.exists() else 0


def starts():
    return lines_of("started")


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def disk(called, lock, tmp_path, tiny_disk):
    """The folder `f` of the fleet, a disk of 32 pages."""
    return tiny_disk(tmp_path / "f", 32 * PAGE)


def test_a_folder_that_is_full_while_a_bundle_is_copied(disk, targets, stub, start):
    """The task waits for space, and delivers."""
    (stub / "hold").touch()
    fleet = start(suite_of(targets[:1]))
    wait_until(starts)
    filled = Filled(disk, DELIVERED - 2)
    (stub / "hold").unlink()
    wait_until(lambda: lines_of("tries") == 2)
    filled.remove()
    assert fleet.end() == 0, fleet.printed
    assert (endings(), starts(), len(bundles())) == ([["DONE"]], 1, 1)
    (attempt,) = state()["tasks"][0]["attempts"]
    assert attempt["reason"].startswith("the folder was full (No space left on device) for ")


def test_a_folder_that_stays_full(disk, called, targets, stub, start):
    """The task is lost with that reason, and measured again once there is space."""
    (stub / "hold").touch()
    fleet = start(suite_of(targets[:1], "attempts = 1\npatience_s = 1.0\n"))
    wait_until(starts)
    filled = Filled(disk, DELIVERED - 2)
    (stub / "hold").unlink()
    assert fleet.end() == 1
    (attempt,) = state()["tasks"][0]["attempts"]
    assert attempt["ending"] == "LOST"
    assert attempt["reason"].startswith("nothing was delivered (exit code 1): cannot deliver to '")
    assert attempt["reason"].endswith("': No space left on device")
    assert "PARTIAL: 0 of 1 bundle in f/runs; 1 missing." in fleet.printed
    assert "Traceback" not in fleet.printed
    filled.remove()
    assert resume(called)[0] == 0
    assert (endings(), len(bundles())) == ([["LOST", "DONE"]], 1)


def test_what_was_delivered_is_kept_when_there_is_space_again(disk, called, targets, stub, start):
    """A delivered file fits, but not the bundle beside it."""
    (stub / "hold").touch()
    fleet = start(suite_of(targets[:1], "patience_s = 60.0\n"))
    wait_until(starts)
    filled = Filled(disk, DELIVERED + 2)
    (stub / "hold").unlink()
    fleet.says("the bundle cannot be kept: No space left on device. It stays in '")
    filled.remove()
    assert fleet.end() == 0, fleet.printed
    assert fleet.printed.count("cannot be kept") == 1
    assert (endings(), starts(), len(bundles())) == ([["DONE"]], 1, 1)


def test_what_was_delivered_is_kept_by_collect(disk, called, targets, stub, start):
    """Nobody made space while the fleet ran."""
    (stub / "hold").touch()
    fleet = start(suite_of(targets[:1], "patience_s = 0.2\n"))
    wait_until(starts)
    filled = Filled(disk, DELIVERED + 2)
    (stub / "hold").unlink()
    assert fleet.end() == 1
    name = state()["tasks"][0]["id"]
    told = f"the bundle cannot be kept: No space left on device. It stays in 'f/exchange/{name}.1.result'."
    assert state()["tasks"][0]["given_up"] == told
    filled.remove()
    code, printed = called("collect", "f")
    assert (code, endings(), starts(), len(bundles())) == (0, [["DONE"]], 1, 1), printed
    assert printed.endswith("COMPLETE: 1 of 1 bundle in f/runs\n")
    assert not list((disk / "exchange").glob("*.result"))


def test_a_fleet_file_that_cannot_be_written(disk, called, targets, stub, start):
    (stub / "hold").touch()
    fleet = start(suite_of(targets[:1]))
    wait_until(starts)
    filled = Filled(disk, 0)
    fleet.says("the fleet file cannot be written: No space left on device; trying again")
    assert called("status", "f")[0] == 0
    assert called("cancel", "f") == (0, "asked the process that runs 'f' to cancel it\n")
    assert fleet.end() == 1
    assert fleet.printed.endswith(
        "aiperf: the fleet ended CANCELLED, but its file cannot be written: No space left on device. The bundles are in 'f/runs'. "
        "Make space, then: aiperf fleet resume f\n"
    )
    (stub / "hold").unlink()
    filled.remove()
    assert resume(called)[0] == 0
    assert (len(bundles()), state()["state"]) == (1, "COMPLETE")


def test_results_that_appear_late_are_waited_for(called, lock, targets, stub, start):
    (stub / f"late.{targets[0]}").write_text("1.0")
    fleet = start(suite_of(targets[:1]))
    assert fleet.end() == 0, fleet.printed
    assert (endings(), starts()) == ([["DONE"]], 1)


def test_results_that_appear_too_late_are_kept_and_not_measured_again(called, lock, targets, stub, monkeypatch):
    monkeypatch.setitem(running.Runner.__init__.__kwdefaults__, "settle_s", 0.1)
    (stub / f"late.{targets[0]}").write_text("2.0")
    Path("suite.toml").write_text(suite_of(targets[:1], "attempts = 1\n"))
    code, _ = called("run", "suite.toml", "--out", "f", "--python", "stub/python", "--poll", "0.05")
    assert (code, endings()) == (1, [["LOST"]])
    assert state()["tasks"][0]["attempts"][0]["reason"] == "nothing was delivered (exit code 0)"
    wait_until(lambda: list(Path("f/exchange").glob("*.result")))
    code, printed = called("collect", "f")
    assert (code, endings(), starts()) == (0, [["DONE"]], 1), printed


def test_two_processes_that_start_in_one_folder_at_once(called, lock, targets, stub, start):
    fleets = [start(suite_of(targets[:1])) for _ in range(2)]
    codes = [one.end() for one in fleets]
    (first,) = (one for one in fleets if one.process.returncode == 0)
    (second,) = (one for one in fleets if one is not first)
    assert first.printed.endswith("COMPLETE: 1 of 1 bundle in f/runs\n")
    assert sorted(codes) in ([0, 1], [0, 2])
    assert second.printed in (
        "aiperf: another process runs the fleet 'f'. See it: aiperf fleet status f. A second fleet needs a folder of its own: "
        "--out FOLDER\n",
        "aiperf: 'f' has a fleet. Continue it: aiperf fleet resume f. A new one needs another --out.\n",
    )
    assert (endings(), starts(), len(bundles())) == ([["DONE"]], 1, 1)


def test_a_fleet_that_was_made_meanwhile_is_not_overwritten(called, targets, monkeypatch):
    """Another process ran and ended between the look at the folder and the lock."""
    from aiperf_fleet.place import Place

    made = Place.make

    def make(place):
        monkeypatch.setattr(Place, "make", made)
        assert run(called, suite_of(targets[:1]))[0] == 0
        made(place)

    monkeypatch.setattr(Place, "make", make)
    assert run(called, suite_of(targets)) == (
        2,
        "aiperf: 'f' has a fleet. Continue it: aiperf fleet resume f. A new one needs another --out.\n",
    )
    assert (endings(), len(bundles())) == ([["DONE"]], 1)


def test_a_folder_that_is_read_only_is_not_taken_for_held(called, targets, tiny_disk, tmp_path):
    disk = tiny_disk(tmp_path / "f", 32 * PAGE)
    assert run(called, suite_of(targets[:1]))[0] == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert called("status", "f")[0] == 0
    code, printed = resume(called)
    assert (code, printed.startswith("aiperf: cannot lock 'f/exchange': Read-only file system.")) == (1, True), printed


def test_a_killed_fleet_is_resumed(called, targets, stub, monkeypatch):
    (stub / f"die.{targets[0]}").touch()
    with monkeypatch.context() as patch:
        patch.setattr("aiperf_fleet.running.Runner.finish", interrupt)
        code, printed = run(called, suite_of(targets))
    assert code == 130
    assert "Continue: aiperf fleet resume f. End it: aiperf fleet cancel f\n" in printed
    # As if it had been killed between a bundle and the file.
    file = state()
    file["tasks"][1]["attempts"][-1]["ending"] = "OPEN"
    # As if the folder had been full before that.
    whole, file["tasks"][2]["attempts"] = file["tasks"][2]["attempts"], []
    Path("f/fleet.json").write_text(json.dumps(file))
    assert "no process runs it. Continue: aiperf fleet resume f\n" in called("status", "f")[1]
    assert resume(called)[0] == 0
    assert (len(bundles()), endings()) == (3, [["LOST", "DONE"], ["DONE"], ["DONE"]])
    for name in ("number", "machine", "exit_code", "seal"):
        assert state()["tasks"][2]["attempts"][0][name] == whole[0][name]


def test_a_fleet_that_is_killed_while_it_submits(called, targets, monkeypatch):
    """The task was started, and the fleet does not know its id."""
    import pretend_engine

    submit = pretend_engine.Pretend.submit
    with monkeypatch.context() as patch:
        patch.setattr(pretend_engine.Pretend, "submit", lambda engine, task: interrupt(submit(engine, task)))
        assert run(called, suite_of(targets[:1]))[0] == 130
    assert [one["submitted"] for one in state()["tasks"][0]["attempts"]] == [""]
    assert resume(called)[0] == 0
    assert (endings(), [one["number"] for one in state()["tasks"][0]["attempts"]]) == ([["CUT", "DONE"]], [1, 2])


def test_collect_and_cancel_what_a_killed_fleet_left(called, targets, stub, monkeypatch):
    (stub / "hold").touch()
    with monkeypatch.context() as patch:
        patch.setattr("aiperf_fleet.running.time.sleep", interrupt)
        assert run(called, suite_of(targets))[0] == 130
    assert endings() == [["OPEN"]] * 3
    (stub / "hold").unlink()
    code, printed = called("collect", "f")
    assert (code, len(bundles())) == (0, 3)
    assert printed.endswith("COMPLETE: 3 of 3 bundles in f/runs\n")
    assert called("cancel", "f") == (0, "the fleet has ended already: COMPLETE\n")


def test_a_running_fleet_is_cancelled_and_cannot_be_run_twice(called, targets, stub, plugins, monkeypatch):
    from aiperf_fleet.place import Place

    place = Place(Path("f"))
    (stub / "hold").touch()
    told = []

    def cancelling(_):
        if not told:
            told.append(resume(called))
            told.append(called("cancel", "f"))

    with monkeypatch.context() as patch:
        patch.setattr("aiperf_fleet.running.time.sleep", cancelling)
        code, _ = run(called, suite_of(targets))
    assert (code, place.is_held) == (130, False)
    assert told == [
        (
            1,
            "aiperf: another process runs the fleet 'f'. See it: aiperf fleet status f. A second fleet needs a folder of its own: "
            "--out FOLDER\n",
        ),
        (0, "asked the process that runs 'f' to cancel it\n"),
    ]
    assert (state()["state"], bundles()) == ("CANCELLED", {})
    (stub / "hold").unlink()
    assert resume(called)[0] == 0
    assert len(bundles()) == 3


def test_a_fleet_that_is_killed_leaves_no_process(called, targets, stub, lock):
    Path("suite.toml").write_text(suite_of(targets[:1]))
    (stub / "hold").touch()
    line = [sys.executable, "-m", "aiperf_core", "fleet", "run", "suite.toml", "--out", "f", "--python", "stub/python"]
    process = subprocess.Popen([*line, "--poll", "0.05"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (stub / "started").exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    (stub / "hold").unlink()
    assert endings() == [["OPEN"]]
    code, printed = resume(called)
    assert (code, endings()) == (0, [["CUT", "DONE"]]), printed
