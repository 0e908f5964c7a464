"""An observer times real processes that share a page with it, and stops them."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from aiperf_core.harness.isolation import process_group
from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.observer import Observed, observe
from aiperf_core.harness.isolation.process_group import ProcessGroup
from aiperf_core.harness.isolation.process_monitor import are_stopped

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's files are Linux's"),
]

# Waits for samples, and runs the source for each. `say` sends the message that wakes an observer that sleeps.
PROCESS = """
import os, sys, time
from aiperf_core.harness.isolation.observed_page import ObservedPage
page = ObservedPage(int(sys.argv[1]))
def say(): os.write(1, b"!")
former, last = [], page.number
say()
while True:
    number = last = page.wait(last)
    exec(sys.argv[2])
    former.append(number)
"""
ENDS = "time.sleep(0.005); page.end(number, {'y': 2.5}); say()"


class Process:
    """A process that is stopped, and what an observer needs of it."""

    def __init__(self, source: str) -> None:
        self.page = ObservedPage.create()
        command = [sys.executable, "-c", PROCESS, str(self.page.fd), source]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, start_new_session=True, pass_fds=(self.page.fd,)
        )
        assert self.process.stdout is not None
        assert self.process.stdout.read(1) == b"!"
        self.pid, self.output = self.process.pid, self.process.stdout.fileno()
        self.group = ProcessGroup(self.pid)
        assert self.group.halt() is not None

    def wait(self, seconds: float) -> bool:
        """Wait for a message, and read it."""
        ready, _, _ = select.select([self.output], [], [], seconds)
        return bool(ready) and bool(os.read(self.output, 1))

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()
        self.page.close()


Start = Callable[[str], Process]
See = Callable[[Process], Observed]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Process] = []

    def start(source: str) -> Process:
        started.append(Process(source))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture(params=["spins", "sleeps"])
def see(request: pytest.FixtureRequest) -> See:
    """What the observer sees, which spins or sleeps; it gives a sample 0.5 s."""
    spins = request.param == "spins"
    return lambda process: observe(process.page, process.group, 0.5, None if spins else process.wait)


def test_samples_are_timed_from_the_release_to_the_end(start: Start, see: See) -> None:
    process = start(ENDS)
    for _ in range(5):
        seen = see(process)
        assert seen.ended_s is not None
        assert seen.halted_s is not None
        assert 0.005 <= seen.ended_s <= seen.halted_s < 0.4
        assert are_stopped(process.pid)
        assert process.page.told() == {"y": 2.5}


def test_the_inputs_that_are_numbers_come_with_the_release(start: Start, see: See) -> None:
    process = start("page.end(number, {'y': 2 * page.numbers()['x']}); say()")
    for value in (1.5, -7.25):
        process.page.write({"x": value})
        assert see(process).ended_s is not None
        assert process.page.told() == {"y": 2 * value}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("os._exit(0)", id="it exits"),
        pytest.param("os.kill(os.getpid(), 9)", id="it is killed"),
        pytest.param("time.sleep(60)", id="it never ends"),
        pytest.param("page.end(number - 1, {}); say()", id="another number"),
        pytest.param("page.end(0, {}); say()", id="zero"),
        pytest.param("say()", id="a message alone"),
    ],
)
def test_a_sample_that_was_not_ended(start: Start, see: See, source: str) -> None:
    process = start(source)
    began = time.monotonic()
    seen = see(process)
    assert seen.ended_s is None
    assert seen.halted_s is not None
    assert time.monotonic() - began < 5
    assert process.process.poll() is not None or are_stopped(process.pid)


def test_numbers_of_former_samples_end_nothing(start: Start, see: See) -> None:
    process = start("page.end(former[-1] if former else number, {}); say()")
    assert see(process).ended_s is not None
    assert see(process).ended_s is None


def test_a_sample_ends_once(start: Start, see: See) -> None:
    process = start("page.end(number, {'y': 1.0}); say(); time.sleep(0.2); page.end(number, {'y': 2.0})")
    seen = see(process)
    assert seen.ended_s is not None
    assert seen.ended_s < 0.2
    assert process.page.told() == {"y": 1.0}


def test_all_processes_of_the_group_stop(start: Start, see: See) -> None:
    process = start(
        """
if os.fork() == 0:
    page.end(number, {}); say()
    while True: pass
time.sleep(60)
"""
    )
    assert see(process).ended_s is not None
    children = process.group._monitor.descendants()
    assert len(children) == 1
    assert all(map(are_stopped, (process.pid, *children)))


def test_a_child_that_left_the_group_is_noticed(
    start: Start, see: See, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_group, "STOPPING_S", 0.1)
    note = tmp_path / "child"
    process = start(
        f"""
if os.fork() == 0:
    os.setsid()
    open({str(note)!r}, "w").write(str(os.getpid()))
    while True: pass
while not os.path.exists({str(note)!r}): pass
page.end(number, {{}}); say(); time.sleep(60)
"""
    )
    try:
        seen = see(process)
        assert seen.ended_s is not None
        assert seen.halted_s is None
    finally:
        os.kill(int(note.read_text()), signal.SIGKILL)


def test_a_process_that_is_continued_by_another_is_noticed(start: Start) -> None:
    process = start(ENDS)
    assert process.group.is_stopped
    os.kill(process.pid, signal.SIGCONT)
    assert not process.group.is_stopped
    assert process.group.halt() is not None
    assert process.group.is_stopped


def test_a_process_that_is_started_during_a_look_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    group, looks = ProcessGroup(os.getpid()), iter(([2], [2, 3], [2, 3]))
    monkeypatch.setattr(group, "_monitor", SimpleNamespace(descendants=lambda: next(looks)))
    monkeypatch.setattr(process_group, "are_stopped", lambda pid: pid != 3)
    assert not group.is_stopped


def test_a_process_that_others_continue_stops_in_the_end(start: Start) -> None:
    process = start(ENDS)
    waking = f"import os, time\nfor _ in range(100):\n    os.kill({process.pid}, 18)\n    time.sleep(1e-3)"
    other = subprocess.Popen([sys.executable, "-S", "-c", waking])
    while other.poll() is None:
        assert process.group.halt() is not None
    assert process.group.halt() is not None
    assert process.group.is_stopped


def test_an_observer_that_was_kept_from_looking_says_so(start: Start) -> None:
    process = start("time.sleep(0.1); page.end(number, {}); say()")
    observer = os.getpid()
    pause = f"import os, signal, time; time.sleep(0.02); os.kill({observer}, signal.SIGSTOP); time.sleep(0.05)"
    other = subprocess.Popen([sys.executable, "-S", "-c", f"{pause}; os.kill({observer}, signal.SIGCONT)"])
    seen = observe(process.page, process.group, 0.5)
    other.wait()
    assert seen.ended_s is not None
    assert seen.gap_s >= 0.04


@pytest.mark.parametrize(
    ("text", "length", "said"),
    [
        (b"{}", 1 << 40, "expected a text of at most 524224 bytes, found 1099511627776"),
        (b"[" * 100_000, 100_000, "expected numbers by their paths, found a text that is nested too deeply"),
        (b'{"y":NaN}', 9, "expected a finite number, found NaN"),
    ],
)
def test_what_the_process_writes_is_read_with_care(text: bytes, length: int, said: str) -> None:
    page = ObservedPage.create()
    page._memory[1 << 19 : (1 << 19) + len(text)] = text
    page._words[3] = length
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        page.told()
    page.close()
