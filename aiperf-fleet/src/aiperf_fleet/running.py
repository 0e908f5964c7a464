"""The loop of a fleet: submit tasks, collect bundles one by one, start lost tasks on other machines.

One thread. The fleet file is written after each change, so that a killed process loses nothing: `resume` reads it.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.fleet import FleetKind, FleetTask, Offer, TaskState, TaskStatus
from aiperf_core.plugins import Plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_fleet import delivery, keeping, planning, records
from aiperf_fleet.delivery import Outcome
from aiperf_fleet.engines.common import SETTLE_S
from aiperf_fleet.machine import to_text
from aiperf_fleet.place import Place
from aiperf_fleet.records import Attempt, Ending, FleetFile, State, Task
from aiperf_fleet.suite import ANY

_OFFERS_S = 5.0
_TAIL = 500


def now() -> str:
    """The time in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Runner:
    """Runs the tasks of a fleet file on an engine. `say` gets messages, one sentence each.

    poll_s: the time between two questions to the engine. settle_s: see `SETTLE_S`.
    """

    def __init__(
        self,
        place: Place,
        file: FleetFile,
        engine: FleetKind,
        plugins: Plugins,
        say: Callable[[str], None],
        *,
        poll_s: float = 1.0,
        settle_s: float = SETTLE_S,
    ) -> None:
        self.place = place
        self.file = file
        self.engine = engine
        self.plugins = plugins
        self.say = say
        self.poll_s = poll_s
        self.settle_s = settle_s
        self.offers: Sequence[Offer] = ()
        self._offers_until = 0.0
        self._resting: dict[str, float] = {}
        self._never: set[str] = set()
        self._ended_at: dict[str, float] = {}
        self._unkept: dict[str, str] = {}
        self._taken_at = time.monotonic()
        self._troubles: dict[str, str] = {}

    def run(self) -> State:
        """Run all tasks. Raises AiperfError where the fleet file cannot be written at the end."""
        self.adopt()
        while not all(task.over for task in self.file.tasks):
            if self.place.cancelled:
                return self.cancel()
            self._look_for_machines()
            self._submit()
            self.collect()
            self._give_up()
            self.save()
            time.sleep(self.poll_s)
        return self.finish()

    def adopt(self) -> None:
        """Continue a file that another process wrote.

        Its bundles count, what was delivered is kept, and attempts that ended with the process are CUT.
        """
        for task in self.file.tasks:
            if task.done is None and self.place.bundle(task.id).exists():
                self._known(task)
            elif task.open is not None and not (self.engine.lasting and task.open.submitted):
                self._end(task, task.open, Ending.CUT, "the process that ran the fleet ended")
        self._keep_late()

    def _known(self, task: Task) -> None:
        """Count a bundle that is not in the file: the process ended before it wrote that, or the folder was full."""
        manifest = Bundle.open(self.place.bundle(task.id)).manifest
        if not task.attempts or task.attempts[-1].ending not in (Ending.OPEN, Ending.CUT):
            task.attempts.append(Attempt(len(task.attempts) + 1, "", now()))
        attempt = task.attempts[-1]
        attempt.seal, attempt.exit_code = manifest.hashes[MANIFEST], manifest.exit_code
        attempt.machine = manifest.labels.get("machine", attempt.machine)
        self._end(task, attempt, Ending.DONE, "")

    def cancel(self) -> State:
        """Cancel what goes on, and keep the bundles that are here."""
        self.collect()
        for task in self.file.tasks:
            if task.open is not None:
                with suppress(AiperfError):
                    self.engine.cancel(task.open.submitted)
                self._end(task, task.open, Ending.CANCELLED, "aiperf fleet cancel")
        self.file.state = State.CANCELLED
        self._save_at_last()
        return self.file.state

    def finish(self) -> State:
        """Write how the fleet ended."""
        for task in self.file.tasks:
            for attempt in task.attempts if task.done is not None else ():
                # Of an attempt that was taken for lost while another one delivered.
                with suppress(OSError):
                    self.place.result(task.id, attempt.number).unlink()
        self.file.state = State.PARTIAL if self.file.missing else State.COMPLETE
        self._save_at_last()
        return self.file.state

    # --- machines

    def _look_for_machines(self) -> None:
        if time.monotonic() < self._offers_until:
            return
        try:
            self.offers = self.engine.offers()
            self._offers_until = time.monotonic() + _OFFERS_S
        except AiperfError as error:
            self._trouble("machines", f"the engine does not tell its machines: {error}")
        else:
            self._troubles.pop("machines", None)

    def _unwanted(self, task: Task) -> frozenset[str]:
        """The machines that a task must avoid now."""
        resting = {name for name, until in self._resting.items() if until > time.monotonic()} | self._never
        if task.machine is not None:
            return frozenset({one.machine for one in self.offers if one.machine != task.machine} | resting)
        bad = (Ending.LOST, Ending.UNFIT)
        failed = {str(one.machine) for one in task.attempts[task.counted_from :] if one.ending in bad}
        elsewhere = [
            one for one in self.offers if one.up and one.machine not in failed | resting and self._of_class(task, one)
        ]
        return frozenset(resting | (failed if elsewhere else set()))

    def _of_class(self, task: Task, offer: Offer) -> bool:
        return task.machine_class == ANY or task.machine_class in offer.classes

    # --- tasks

    def _submit(self) -> None:
        """Queue tasks: as many as there are machines and one more, so that a bad machine cannot take them all."""
        going = sum(task.open is not None for task in self.file.tasks)
        room = sum(one.up for one in self.offers) + 1 - going
        for task in self.file.tasks:
            if room <= 0:
                return
            if not task.over and task.open is None and self._started(task):
                room -= 1

    def _started(self, task: Task) -> bool:
        number = len(task.attempts) + 1
        order = FleetTask(
            id=f"{task.id}.{number}",
            command=(
                self.file.python,
                "-m",
                "aiperf_fleet.machine",
                to_text(planning.order(self.file, task, self.plugins)),
            ),
            result=self.place.result(task.id, number).absolute(),
            machine_class=None if task.machine_class == ANY else task.machine_class,
            avoid=self._unwanted(task),
            time_limit_s=self.file.suite.time_limit_s,
        )
        if not any(order.fits(one) for one in self.offers):
            return False
        # Written before, so that no two attempts have one number, even if the process ends within the submission.
        attempt = Attempt(number, "", now())
        task.attempts.append(attempt)
        self.save()
        try:
            attempt.submitted = self.engine.submit(order)
        except AiperfError as error:
            task.attempts.pop()
            self._trouble(f"submission of {task.id}", f"the engine refuses {task.id}: {error}")
            return False
        self._troubles.pop(f"submission of {task.id}", None)
        self._taken_at = time.monotonic()
        self.save()
        return True

    def collect(self) -> None:
        """Ask for the state of all tasks, and keep what they delivered."""
        self._keep_late()
        going = {task.open.submitted: task for task in self.file.tasks if task.open is not None}
        if not going:
            return
        try:
            states = self.engine.poll(list(going))
        except AiperfError as error:
            self._trouble("states", f"the engine does not answer: {error}")
            return
        self._troubles.pop("states", None)
        for submitted, task in going.items():
            self._follow(task, states[submitted])
        if any(state.status is TaskStatus.RUNNING for state in states.values()):
            self._taken_at = time.monotonic()

    def _follow(self, task: Task, state: TaskState) -> None:
        attempt = task.open
        assert attempt is not None
        attempt.machine = state.machine or attempt.machine
        if state.status is TaskStatus.LOST:
            with suppress(AiperfError):
                self.engine.cancel(attempt.submitted)
            if not self._delivered(task, attempt):
                self._lost(task, attempt, state.reason or "the machine or the engine failed")
        elif state.status is TaskStatus.ENDED:
            self._ended(task, attempt, state)

    def _ended(self, task: Task, attempt: Attempt, state: TaskState) -> None:
        if self._delivered(task, attempt):
            return
        since = self._ended_at.setdefault(attempt.submitted, time.monotonic())
        if state.exit_code == 0 and time.monotonic() - since < self.settle_s:
            return  # a shared folder may be slow
        self._lost(task, attempt, self._undelivered(attempt, state))

    def _keep_late(self) -> None:
        """Keep what attempts delivered that were taken for lost: a shared folder may be slower than `settle_s`."""
        for task in self.file.tasks:
            if not task.has_result and task.open is None:
                for attempt in task.attempts:
                    if attempt.ending in (Ending.LOST, Ending.CUT) and self._delivered(task, attempt):
                        break

    def _delivered(self, task: Task, attempt: Attempt) -> bool:
        """Keep what an attempt delivered; False where nothing is there. On a full disk it stays, and is tried again."""
        path = self.place.result(task.id, attempt.number)
        if not os.path.exists(path):  # of an unreachable folder too
            return False
        try:
            outcome = delivery.read(path, self.place.bundle(task.id))
        except UsageError as error:
            self._lost(task, attempt, f"what was delivered is damaged: {error}")
        except AiperfError as error:
            self._unkept[task.id] = f"{error} It stays in '{path}'."
            self._trouble(task.id, f"{task.id}: {error} It stays in '{path}'; trying again")
            return True
        else:
            self._outcome(task, attempt, outcome)
        self._unkept.pop(task.id, None)
        self._troubles.pop(task.id, None)
        with suppress(OSError):
            path.unlink()
        return True

    def _undelivered(self, attempt: Attempt, state: TaskState) -> str:
        how = f"exit code {state.exit_code}" if state.exit_code is not None else state.reason or "no exit code"
        return self._with_log(attempt, f"nothing was delivered ({how})")

    def _with_log(self, attempt: Attempt, reason: str) -> str:
        """A reason, with the end of what the task printed."""
        printed = self.engine.log(attempt.submitted).strip()[-_TAIL:]
        return f"{reason}: {printed}" if printed else reason

    def _outcome(self, task: Task, attempt: Attempt, outcome: Outcome) -> None:
        attempt.exit_code, attempt.seal = outcome.exit_code, outcome.seal
        if attempt.machine is None and outcome.ending is Ending.DONE:
            attempt.machine = Bundle.open(self.place.bundle(task.id)).manifest.labels.get("machine")
        failed = outcome.ending is Ending.FAILED
        reason = self._with_log(attempt, outcome.reason) if failed else outcome.reason
        self._end(task, attempt, outcome.ending, reason)
        if outcome.ending is Ending.DONE:
            task.given_up = ""
            self.say(f"{task.id}: done on {attempt.machine}, exit code {outcome.exit_code}")
        elif outcome.ending is Ending.FAILED:
            self.say(f"{task.id}: failed on {attempt.machine}; see aiperf fleet status")
        else:
            self.say(f"{task.id}: {attempt.machine} is not fit: {outcome.reason}")
            if outcome.lasting and attempt.machine:
                self._never.add(attempt.machine)
            elif attempt.machine:
                self._resting[attempt.machine] = time.monotonic() + self.file.suite.rest_s
            if task.count(Ending.UNFIT) > self.file.suite.hand_backs:
                self._abandon(task, f"handed back {task.count(Ending.UNFIT)} times")

    def _lost(self, task: Task, attempt: Attempt, reason: str) -> None:
        self._end(task, attempt, Ending.LOST, reason)
        self.say(f"{task.id}: lost on {attempt.machine or 'an unknown machine'}: {reason}")
        if task.count(Ending.LOST) >= self.file.suite.attempts:
            self._abandon(task, f"lost {task.count(Ending.LOST)} times")

    def _end(self, task: Task, attempt: Attempt, ending: Ending, reason: str) -> None:
        attempt.ending, attempt.reason, attempt.ended = ending, reason, now()
        self._ended_at.pop(attempt.submitted, None)
        self.save()

    def _give_up(self) -> None:
        """Give up tasks that no machine takes for too long, or whose bundles cannot be kept."""
        waits = time.monotonic() - self._taken_at
        if waits < self.file.suite.patience_s:
            return
        for task in self.file.tasks:
            if not task.over:
                unkept = self._unkept.get(task.id, "")
                if task.open is not None:
                    with suppress(AiperfError):
                        self.engine.cancel(task.open.submitted)
                    self._end(task, task.open, Ending.CUT, unkept or "no machine took it")
                self._abandon(task, unkept or f"no machine took it for {waits:.0f} s")

    def _abandon(self, task: Task, reason: str) -> None:
        task.given_up = reason
        self.say(f"{task.id}: given up: {reason}")

    # --- the fleet file

    def save(self) -> None:
        """Write the fleet file. A folder that is full is reported, and written when it has space."""
        self.file.updated = now()
        try:
            records.write(self.place.folder, self.file)
        except OSError as error:
            self._trouble("file", f"the fleet file cannot be written: {error.strerror or error}; trying again")
        else:
            self._troubles.pop("file", None)

    def _save_at_last(self) -> None:
        """Write the fleet file and the fleet's bundle."""
        self.file.updated = now()
        try:
            records.write(self.place.folder, self.file)
        except OSError as error:
            raise AiperfError(
                f"the fleet ended {self.file.state}, but its file cannot be written: {error.strerror or error}. "
                f"The bundles are in '{self.place.runs}'. Make space, then: aiperf fleet resume {self.place.folder}"
            ) from error
        keeping.keep(self.place, self.file, self.plugins)

    def _trouble(self, about: str, text: str) -> None:
        """Say something once, until what it is about is well again."""
        if self._troubles.get(about) != text:
            self._troubles[about] = text
            self.say(text)
