"""Runs that are made side by side: which of them, in which processes, and how they end."""

import fcntl
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.requirements import Hardware
from aiperf_core.results.models import Verdict
from aiperf_core.validity.cases import Case
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.registry import issues
from aiperf_redteam.selftest.parallel import Lanes, Turns, groups_of
from aiperf_redteam.selftest.runs import BESIDE, OF_TIMES, Job, RunKey, Sharing
from aiperf_redteam.selftest.trials import Trials

TARGETS = Path(__file__).parent / "targets"


GUARDS = {
    "play.zeros": "judged_output",
    "play.kept": "fresh_values",
    "play.late": "ranks",
    "play.linted": "task_lint",
    "play.own": "own_process",
    "play.spread": "judged_output",
}
ISSUES = {
    name: Issue(
        id=name,
        title="x",
        happens="x",
        guard=guard,
        protection="x",
        needs=("gpus>=98",) if name == "play.spread" else (),
    )
    for name, guard in GUARDS.items()
}


def case(name: str, implementation: str, **other: Any) -> Case:
    return Case(**{"issue": name, "module": "guarded", "implementation": implementation, **other})


@pytest.mark.parametrize(
    ("processors", "groups"),
    [
        ([0, 1], [[0], [1]]),
        ([7, 1, 0, 2, 4], [[0, 1], [2, 4]]),
        ([3], []),
        ([*range(6)], [[0, 1], [2, 3], [4, 5]]),
        ([*range(16)], [[*range(first, first + 4)] for first in (0, 4, 8, 12)]),
    ],
)
def test_each_lane_has_processors_of_its_own(processors, groups):
    assert groups_of(processors) == groups


def jobs(*cases: Case, device: str | None = None, gpus: int = 1) -> list[Job]:
    sharing = Sharing(GUARDS)
    for one in cases:
        sharing.add(one)
    planner = SimpleNamespace(hardware=Hardware(gpus=gpus))
    return sharing.jobs(cases, Trials(planner, Path(), device, ISSUES, Silent()).lacking)  # type: ignore[arg-type]


def key(*names: str, off: frozenset[str] = frozenset(), device: str = "cpu", **other: Any) -> RunKey:
    return RunKey(module="guarded", device=device, names=frozenset(names), off=off, **other)


def test_the_runs_of_guards_that_no_times_decide_are_made_side_by_side():
    found = jobs(
        case("play.zeros", "zeros"),
        case("play.zeros", "halves"),
        case("play.zeros", "brisk", honest=True),
        case("play.kept", "kept"),
        case("play.late", "late"),
        case("play.linted", "loose"),
        case("play.own", "alias"),
    )
    assert {one.key for one in found} == {
        key("zeros", "halves", off=BESIDE | {"judged_output"}),
        key("kept", off=BESIDE | {"fresh_values"}),
        # Of the linter there is no run with its guard on, of a harness of one process none with its guard off.
        key("loose", off=BESIDE | {"task_lint"}),
        key("zeros", "halves", "kept", "alias", off=BESIDE),
        key("alias", one_process=True),
        key("brisk"),
    }
    assert [len(one.key.names) for one in found] == sorted((len(one.key.names) for one in found), reverse=True)


def test_runs_on_a_gpu_are_made_side_by_side_too():
    found = jobs(case("play.zeros", "zeros", device="cuda"), case("play.kept", "kept"))
    assert {(one.key.device, *one.key.names) for one in found} == {("cuda", "zeros"), ("cpu", "kept")}


def test_cases_of_other_rounds_share_no_run():
    found = jobs(case("play.own", "alias", tier="standard"), case("play.kept", "kept", tier="standard"))
    assert {(one.key.tier, *one.key.names) for one in found if not one.key.one_process} == {
        ("standard", "alias"),
        ("one-round", "kept"),
    }


@pytest.mark.parametrize(
    ("one", "device"),
    [
        (case("play.late", "zeros"), None),
        (case("play.late", "zeros", device="cuda"), None),
        (case("play.zeros", "zeros", alone=True), None),
        (case("play.zeros", "zeros", needs=("processors>=2",)), None),
        (case("play.zeros", "zeros"), "cuda"),
    ],
)
def test_what_another_run_would_change_is_not_made_beside_one(one, device):
    assert jobs(one, device=device) == []


def test_what_this_machine_lacks_is_not_made_ahead():
    assert jobs(case("play.zeros", "zeros", device="cuda"), gpus=0) == []


def test_the_guards_of_times_are_guards():
    assert {one.guard for one in issues()} >= OF_TIMES


@pytest.fixture
def lanes(monkeypatch, tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs 2 processors")
    monkeypatch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
    return Lanes(logs=tmp_path, device="cpu", issues=ISSUES)


def test_lanes_take_turns_while_calls_are_timed_on_a_gpu(tmp_path):
    def is_free() -> bool:
        with (tmp_path / "gpu").open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    with (tmp_path / "gpu").open("wb") as file:
        turns = Turns(file, on_gpu=True)
        for phase in (
            "warm-up",
            "sampling",
            "sampling",
            "verification: audit",
            "setup: start workers",
            "all in one process",
        ):
            turns.phase(phase)
            assert is_free() is phase.startswith(("warm-up", "setup")), phase
        turns.end()
        assert is_free()
        turns.on_gpu = False
        turns.phase("sampling")
        assert is_free()


@pytest.mark.proof
def test_runs_in_two_lanes(lanes):
    zeros = case("play.zeros", "zeros")
    given = [
        Job(zeros, key("zeros", off=BESIDE | {"judged_output"})),
        Job(zeros, key("zeros")),
        Job(case("play.own", "brisk"), key("brisk", one_process=True)),
        Job(case("play.zeros", "shows_processors"), key("shows_processors")),
        Job(case("play.kept", "shows_processors"), key("shows_processors", longer=1.1)),
        Job(case("play.spread", "zeros"), key("zeros")),
    ]
    before = {one.pid for one in psutil.Process().children(recursive=True)}
    for measurement in "123":
        logs = lanes.logs / measurement
        logs.mkdir()
        made = {id(job): (rows, seconds) for job, rows, seconds in evolve(lanes, logs=logs).make(given)}
        # Other work on the machine may hide the gain.
        if made[id(given[0])][0]["zeros"].verdict is not Verdict.INCONCLUSIVE:
            break
    assert {one.pid for one in psutil.Process().children(recursive=True)} <= before
    assert len(made) == len(given)
    rows = [made[id(one)][0] for one in given]
    assert [*rows[0]] == ["idle", "zeros"]
    assert rows[0]["zeros"].verdict is Verdict.FASTER, rows[0]["zeros"].reason
    assert rows[1]["zeros"].verdict is Verdict.INVALID
    assert rows[2]["brisk"].verdict is Verdict.FASTER
    assert rows[5] is None, "the selftest tries it too, and says why it cannot"
    assert all(seconds > 0 for _, seconds in made.values())
    seen = {line for one in rows[3:5] for line in one["shows_processors"].log}
    assert seen <= {str(group) for group in lanes.processors}


@pytest.mark.proof
def test_a_lane_that_ends_is_told(lanes, capfd):
    with pytest.raises(
        AiperfError, match=re.escape("a process that makes runs of the selftest side by side has ended")
    ):
        list(lanes.make([Job(None, key("zeros"))]))  # type: ignore[arg-type]
    assert "AttributeError" in capfd.readouterr().err
