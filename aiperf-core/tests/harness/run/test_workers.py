"""The judge that is started ahead of the next run: when it is used, and what it prints to."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict

from aiperf_core.candidate_format import AIPERF
from aiperf_core.devices.device import CPU
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.workers import JudgeProcess, NextJudge
from aiperf_core.results.models import TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection

SOURCES = ("described", {"aiperf_core": "a"})
REQUEST: dict[str, Any] = {
    "target": {"name": "practice.softmax", "module": "aiperf_core.practice.softmax"},
    "device": asdict(CPU),
    "params": {"rows": 13, "columns": 1021},
    "off": [],
    "tolerance": None,
    "flush_bound": None,
}


@pytest.fixture
def server(shared_planner: Planner) -> ForkServer:
    return shared_planner._server


@pytest.fixture
def ready(server: ForkServer, tmp_path: Path) -> NextJudge:
    """A judge that is ready for the same request."""
    following = NextJudge(server, tmp_path / "ahead.log")
    following.start()
    assert following.take(REQUEST, SOURCES) is None, "no run has told what it asks for"
    following.start()
    return following


def test_a_judge_that_was_started_ahead_is_used_once(ready: NextJudge, server: ForkServer, tmp_path: Path) -> None:
    taken = ready.take(REQUEST, SOURCES)
    assert taken is not None
    assert ready.take(REQUEST, SOURCES) is None
    told = taken.opened(60.0, tmp_path / "judge.log")
    for fd in told.pop("fds"):
        os.close(fd)
    new = JudgeProcess.start(server, tmp_path / "new.log", REQUEST, random.Random(0))
    again = new.opened(60.0, tmp_path / "new.log")
    for fd in again.pop("fds"):
        os.close(fd)
    assert {**told, "clock_cost_s": 0.0} == {**again, "clock_cost_s": 0.0}
    assert taken.first_seed != new.first_seed
    os.kill(taken.child.pid, signal.SIGUSR1)  # prints where it is
    deadline = time.monotonic() + 20
    while "Current thread" not in (tmp_path / "judge.log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (tmp_path / "ahead.log").read_text() == ""
    for one in (taken, new):
        one.child.kill()


@pytest.mark.parametrize(
    ("request_now", "sources_now"),
    [
        ({**REQUEST, "params": {"rows": 14, "columns": 1021}}, SOURCES),
        (REQUEST, ("described", {"aiperf_core": "b"})),
        (REQUEST, ("described otherwise", {"aiperf_core": "a"})),
    ],
)
def test_a_judge_of_other_sources_or_sizes_is_not_used(
    ready: NextJudge, request_now: dict[str, Any], sources_now: object
) -> None:
    assert ready._ready is not None
    child = ready._ready.child
    assert ready.take(request_now, sources_now) is None
    assert child.ended


def test_a_judge_that_ended_while_it_waited_is_not_used(ready: NextJudge) -> None:
    assert ready._ready is not None
    child = ready._ready.child
    os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: child.server.exit_code(child.pid, timeout=0.1) is not None)
    assert ready.take(REQUEST, SOURCES) is None
    assert child.ended


CANDIDATE = """
import torch

class Implementation:
    def run(self, x):
        return torch.softmax(x, -1)
"""


def test_a_run_of_a_candidate_uses_the_judge_of_the_run_before(
    shared_planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = NextJudge(shared_planner._server, tmp_path / "ahead.log")
    monkeypatch.setattr(shared_planner, "next_judge", following)
    monkeypatch.setattr(Planner, "ceilings", lambda *_, **__: None)
    file, started = tmp_path / "candidate.py", []
    file.write_text(CANDIDATE)
    target = InstalledTarget("practice.softmax", "aiperf_core.practice.softmax")

    def start(*arguments: Any, **more: Any) -> JudgeProcess:
        started.append(more.get("ahead", False))
        return begin(*arguments, **more)

    begin = JudgeProcess.start
    monkeypatch.setattr(JudgeProcess, "start", start)

    def judge(sources: dict[str, str]) -> None:
        following.sources = sources
        shared_planner.options = Options(
            device="cpu", size="smoke", budget_s=0.05, candidate=check_candidate(file, AIPERF)
        )
        plans, _ = shared_planner.plan([Selection(target)])
        found = shared_planner.run(plans[0], lambda _, name: tmp_path / f"{name}.log", Silent())
        assert isinstance(found, TargetResult), found
        assert found.rows[1].verdict in (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE), (
            found.rows[1].reason
        )

    judge({"aiperf_core": "a"})
    following.start()
    judge({"aiperf_core": "a"})
    assert started == [False, True]
    judge({"aiperf_core": "a"})
    following.start()
    judge({"aiperf_core": "b"})
    assert started == [False, True, False, True, False]


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_log_by_a_relative_path_is_in_the_folder_of_the_command(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = JudgeProcess.start(server, tmp_path / "new.log", REQUEST, random.Random(0))
    monkeypatch.chdir(tmp_path)
    for fd in started.opened(60.0, Path("judge.log")).pop("fds"):
        os.close(fd)
    started.child.kill()
    assert started.child.log == tmp_path / "judge.log"
    assert started.child.log.exists()
