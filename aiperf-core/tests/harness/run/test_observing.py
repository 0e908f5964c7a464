"""Runs of untrusted code that an observer times: what becomes of the row, of the others, and of the processes."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.formats.candidate import CandidateSource, check_candidate
from aiperf_core.harness.isolation import process_group
from aiperf_core.harness.run import bench, observing
from aiperf_core.harness.run.observing import ObservedTaker, free_processors, has_processor
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.workers import Workers
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict

HONEST = """
import os, time

class Implementation:
    calls = 0

    def run(self, pair, memory, shift, weight, scale):
        self.calls += 1
        BEFORE
        total = pair["left"] * weight * scale + pair["right"][0] + shift
        memory.add_(total)
        return {"total": total, "memory": memory, "sum": float(total.double().sum())}
"""
Judge = Callable[..., list[Row]]


def candidate(folder: Path, before: str = "pass", text: str = HONEST) -> CandidateSource:
    """Code that executes a line before its work."""
    file = folder / "candidate.py"
    file.write_text(text.replace("BEFORE", before))
    return check_candidate(file, AIPERF)


@pytest.fixture
def judge(measure: Any, tmp_path: Path) -> Judge:
    """The rows of the baseline and of a candidate that executes a line before its work."""

    def judge(before: str = "pass", text: str = HONEST, **options: Any) -> list[Row]:
        result = measure("features", candidate=candidate(tmp_path, before, text), **options)
        assert isinstance(result, TargetResult), result
        return result.rows

    return judge


@pytest.fixture(params=[False, True], ids=["sleeps", "spins"])
def observer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the observer is a process that spins."""
    spins: bool = request.param
    monkeypatch.setattr(bench, "has_processor", lambda _: spins)
    return spins


def test_honest_code_is_timed_by_the_observer(judge: Judge, observer: bool) -> None:
    baseline, row = judge()
    assert baseline.verdict is Verdict.MEASURED, baseline.reason
    assert row.verdict not in (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED), row.reason
    assert row.judgement is not None
    for one in (baseline.samples, row.samples):
        columns = zip(one.own_s, one.wall_s, one.replied_s, strict=True)
        for own, wall, replied in columns:
            assert own is not None
            assert wall is not None
            assert replied is not None
            assert own < wall <= replied


def test_time_in_the_call_is_in_the_samples(judge: Judge, observer: bool) -> None:
    baseline, row = judge("time.sleep(0.03)")
    least, usual = (min(filter(None, one.samples.wall_s)) for one in (row, baseline))
    assert least >= 0.03
    assert usual < least
    assert baseline.time_s is not None
    assert 0 < min(filter(None, baseline.samples.own_s)) <= baseline.time_s.value


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("if self.calls == 5: os._exit(7)", "its process exited with status 7 during 'observed_sample'"),
        ("if self.calls == 5: os.kill(os.getpid(), 9)", "its process was killed by SIGKILL during 'observed_sample'"),
        ("if self.calls == 5: raise ValueError('not today')", "raised ValueError: not today"),
        ("if self.calls == 5: time.sleep(60)", "gave no answer within 2 s (during 'observed_sample') and was killed"),
    ],
)
def test_a_sample_without_an_end_costs_the_row_alone(judge: Judge, observer: bool, before: str, said: str) -> None:
    baseline, row = judge(before, timeout_s=2.0 if "sleep" in before else 20.0)
    assert baseline.verdict is Verdict.MEASURED, baseline.reason
    assert row.verdict is Verdict.FAILED
    assert said in (row.reason or "")


# A thread whose child waits for a FIFO before it executes a program cannot be stopped. It goes on to wait until the
# harness releases the output.
WAITS_IN_KERNEL = """
import ctypes, gc, threading, weakref

libc, spawning = ctypes.CDLL(None), []


def spawn():
    actions, argv = ctypes.create_string_buffer(256), (ctypes.c_char_p * 2)(b"true", None)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, b"fifo", os.O_RDONLY, 0)
    libc.posix_spawn(ctypes.byref(ctypes.c_int()), b"/bin/true", actions, None, argv, None)


def go_on():
    while spawning and spawning[-1].is_alive():
        try:
            os.close(os.open("fifo", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # it has not opened the file again since it was continued
            time.sleep(0.001)


def reply_late(output, aliases):
    time.sleep(0.1)  # until it was stopped at the end of its sample, and continued
    spawning.append(threading.Thread(target=spawn))
    spawning[-1].start()
    time.sleep(0.05)
    return aliases(output)


def prepare():
    os.mkfifo("fifo")
    (output,) = (one for one in gc.get_objects() if type(one).__name__ == "Output")
    output.aliases = lambda: reply_late(output, type(output).aliases)
"""


def test_the_baseline_is_not_sampled_while_a_process_of_the_candidate_cannot_be_stopped(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_group, "STOPPING_S", 0.5)
    text = WAITS_IN_KERNEL + HONEST.replace("return", "weakref.finalize(total, go_on)\n        return")
    baseline, row = judge("if self.calls == 1: prepare()", text)
    assert baseline.verdict is Verdict.MEASURED, baseline.reason
    assert row.verdict is Verdict.FAILED
    assert row.reason == "did not stop: a process that it started left its group, or waits in the kernel"


def test_who_takes_too_much_memory_without_a_name_is_killed_alone(judge: Judge) -> None:
    # The limit leaves room for a flush of a large cache, which takes twice its size.
    hoards = "if self.calls == 2: [os.posix_fallocate(os.memfd_create('x'), 0, 1 << 30) for _ in 'abc'], time.sleep(9)"
    baseline, row = judge(hoards, memory_limit_bytes=5 << 29)
    assert baseline.verdict is Verdict.MEASURED, baseline.reason
    assert row.verdict is Verdict.FAILED
    assert re.fullmatch(
        r"killed: its processes take [23]\.\d\d GiB of memory, of the 2\.50 GiB that a candidate may take",
        row.reason or "",
    )


def processes(planner: Planner) -> set[int]:
    return {one.pid for one in psutil.Process(planner._server.pid).children(recursive=True)}


@pytest.mark.parametrize("overuse", ["", "its processes take 9.00 GiB of memory"])
@pytest.mark.parametrize("which", ["observer", "judge"])
def test_a_process_of_the_harness_that_dies_leaves_nothing_behind(
    measure: Any, shared_planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, overuse: str
) -> None:
    monkeypatch.setattr(Workers, "overuse", overuse)
    monkeypatch.setattr(bench, "has_processor", lambda _: True)
    observe = ObservedTaker._observe

    def without(self: ObservedTaker, *arguments: Any) -> Any:
        child = self.observer if which == "observer" else self.judge
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        return observe(self, *arguments)

    monkeypatch.setattr(ObservedTaker, "_observe", without)
    before = processes(shared_planner)
    result = measure("features", candidate=candidate(tmp_path))
    assert isinstance(result, SkippedTarget)
    assert result.verdict is Verdict.FAILED
    who = "the observer failed: " if which == "observer" else ""
    assert result.reason.startswith(f"'tests.features' could not be judged: {who}its process was killed by SIGKILL")
    assert result.reason.endswith(
        "; the kernel does so when memory runs out. "
        + (
            f"The candidate was killed, too: {overuse}"
            if overuse
            else "Whether the target or the candidate took it is not known: free memory, and judge it again"
        )
    )
    until = time.monotonic() + 10
    while (left := processes(shared_planner) - before) and time.monotonic() < until:
        time.sleep(0.01)
    assert left == set()


def test_an_observer_without_a_processor_accuses_nobody(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "STARVED", -1.0)
    monkeypatch.setattr(observing, "LEAST_SEEN", 3)
    baseline, row = judge()
    assert baseline.verdict is Verdict.MEASURED, baseline.reason
    assert row.verdict is Verdict.INCONCLUSIVE
    # Warnings of the machine, as the baseline has them.
    assert {one.issue for one in row.findings} == {one.issue for one in baseline.findings}
    assert {one.severity for one in row.findings} <= {"warning"}
    assert row.reason == (
        "other work on the machine kept its observer from looking for at least half of most samples: repeat it on a "
        "quiet machine"
    )


def test_a_changed_process_is_accused_where_its_observer_had_no_processor(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "STARVED", -1.0)
    monkeypatch.setattr(observing, "LEAST_SEEN", 3)
    time_module = "__import__('time')"
    _, row = judge(f"setattr({time_module}, 'perf_counter_ns', lambda real={time_module}.perf_counter_ns: real())")
    assert row.verdict is Verdict.INVALID
    assert "clock functions were replaced" in (row.reason or "")


@pytest.mark.parametrize(("threads", "usable", "free"), [(None, 8, False), (1, 2, False), (1, 3, True), (6, 8, True)])
def test_an_observer_spins_where_two_processors_are_free(
    monkeypatch: pytest.MonkeyPatch, threads: int | None, usable: int, free: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(usable)))
    assert has_processor(threads) is free
    assert free_processors(threads) == ([] if threads is None else list(range(usable - threads)))
