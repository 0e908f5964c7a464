"""The conformance kit for engines of fleets: whether a class keeps the contract of `FleetKind`."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from aiperf_core.errors import UsageError
from aiperf_core.fleet import FleetKind, FleetTask, TaskState, TaskStatus
from aiperf_core.observers import describe

_POLL_S = 0.1
_NO_CLASS = "no-machine-has-this-class"
# Writes its result, its machine, a variable and its arguments.
_WRITES = """
import os, sys
print("printed by the task")
with open(os.environ["AIPERF_FLEET_RESULT"], "w") as file:
    file.write("|".join([os.environ["AIPERF_FLEET_MACHINE"], os.environ["GIVEN"], *sys.argv[1:]]))
"""
_ARGUMENTS = ("two words", "a'quote\"", "$HOME", "*")


def fleet_conformance(make: Callable[[Path], FleetKind], folder: Path, timeout_s: float = 60.0) -> list[str]:
    """Problems of an engine, as messages; empty where it keeps the contract. Runs four small tasks.

    make: creates an instance for a folder, on machines that take tasks now.
    folder: a new folder; an engine with a shared file system needs it there.
    timeout_s: the longest time for one task, in seconds.
    """
    try:
        fleet = make(folder)
        try:
            return list(_Kit(fleet, folder, timeout_s).complaints())
        finally:
            fleet.close()
            fleet.close()
    except Exception as error:
        return [f"it raised {describe(error)}"]


class _Kit:
    """The checks of one instance."""

    def __init__(self, fleet: FleetKind, folder: Path, timeout_s: float) -> None:
        self.fleet = fleet
        self.folder = folder
        self.timeout_s = timeout_s

    def complaints(self) -> Iterator[str]:
        """All complaints, in the order of the methods."""
        offers = self.fleet.offers()
        names = [offer.machine for offer in offers]
        if not any(offer.up for offer in offers):
            yield "offers() has no machine that takes tasks"
            return
        if len(set(names)) < len(names):
            yield f"offers() has a machine twice: {', '.join(names)}"
        yield from self._refused(names)
        yield from self._unknown()
        yield from self._written(names)
        yield from self._failing()
        yield from self._cancelled()

    def _refused(self, names: list[str]) -> Iterator[str]:
        impossible = {
            "of a class that no machine has": self._task("class", "pass", machine_class=_NO_CLASS),
            "that avoids all machines": self._task("avoid", "pass", avoid=frozenset(names)),
        }
        for what, task in impossible.items():
            try:
                self.fleet.cancel(self.fleet.submit(task))
            except UsageError:
                continue
            yield f"submit() accepts a task {what}; expected UsageError"

    def _unknown(self) -> Iterator[str]:
        told = self.fleet.poll(["999999999"])["999999999"]
        if told.status is not TaskStatus.LOST:
            yield f"poll() says {told.status} for an id that is not known; expected LOST"
        self.fleet.cancel("999999999")

    def _written(self, names: list[str]) -> Iterator[str]:
        task = self._task("writes", _WRITES, *_ARGUMENTS)
        submitted = self.fleet.submit(task)
        state = self._wait(submitted)
        if (state.status, state.exit_code) != (TaskStatus.ENDED, 0):
            yield f"a task that ends well is {_told(state)}; expected ENDED with exit code 0"
            return
        found = task.result.read_text() if task.result.exists() else None
        expected = "|".join([str(state.machine), "a value", *_ARGUMENTS])
        if state.machine not in names:
            yield f"poll() names the machine {state.machine!r}; offers() has {', '.join(names)}"
        if found != expected:
            yield f"the result file has {found!r}; expected {expected!r}"
        if "printed by the task" not in self.fleet.log(submitted):
            yield f"log() has {self.fleet.log(submitted)!r}; expected what the task printed"

    def _failing(self) -> Iterator[str]:
        state = self._wait(self.fleet.submit(self._task("fails", "raise SystemExit(7)")))
        if (state.status, state.exit_code) != (TaskStatus.ENDED, 7):
            yield f"a task with exit code 7 is {_told(state)}; expected ENDED with exit code 7"

    def _cancelled(self) -> Iterator[str]:
        beats = self.folder / "beats"
        code = f"import time\nwhile True:\n    open({str(beats)!r}, 'a').write('.'); time.sleep(0.05)"
        submitted = self.fleet.submit(self._task("endless", code))
        self._until(lambda: beats.exists() and beats.stat().st_size > 0)
        self.fleet.cancel(submitted)
        state = self._wait(submitted)
        if not state.over:
            yield f"a cancelled task is {_told(state)} after {self.timeout_s:g} s; expected ENDED or LOST"
        time.sleep(0.1)
        size = beats.stat().st_size if beats.exists() else 0
        time.sleep(0.3)
        if beats.exists() and beats.stat().st_size > size:
            yield "the process of a cancelled task still runs"

    def _task(
        self,
        name: str,
        code: str,
        *arguments: str,
        machine_class: str | None = None,
        avoid: frozenset[str] = frozenset(),
    ) -> FleetTask:
        return FleetTask(
            id=name,
            command=(sys.executable, "-c", code, *arguments),
            result=self.folder / f"{name}.result",
            machine_class=machine_class,
            avoid=avoid,
            environment={"GIVEN": "a value"},
            time_limit_s=600.0,
        )

    def _wait(self, submitted: str) -> TaskState:
        self._until(lambda: self.fleet.poll([submitted])[submitted].over)
        return self.fleet.poll([submitted])[submitted]

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.timeout_s
        while not condition() and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def _told(state: TaskState) -> str:
    return f"{state.status} with exit code {state.exit_code} ({state.reason or 'no reason'})"
