"""How far a target's run is, and how long it still takes, by this run and by the one before it.

The sampling budget is only a part of a run. Setup, warm-up, the least number of passes and the checks after sampling
come on top.
"""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import Factory, asdict, define, field

from aiperf_core import atomic, events
from aiperf_core.folders import cache_folder
from aiperf_core.harness.run.conditions import Conditions
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.setup import Setup
from aiperf_core.measurements import Estimate
from aiperf_core.results import jsontext

# The phases of a round; `final` are the checks after the last one.
PHASES = ("setup", "warm-up", "sampling", "verification")
FINAL = "final"
# Of how many targets, devices and sizes durations are stored.
_MOST_STORED = 2000
_FILE = "durations.json"
_REPORT_EVERY_S = 1.0


@define
class TimeLeft:
    """Estimates how long a target's run still takes, from the rounds so far and from an earlier run.

    rounds: of the run.
    budget_s: seconds of sampling of a round.
    least_passes: passes of a round, whatever the budget.
    before: the seconds of each phase of a round of an earlier run by name, with `final`, and `pass` for a pass; empty
        where none is known.
    warm_pass_s: about how long a pass takes, before the first one.
    stopped_early: whether the sampling of the last round ended because the intervals were narrow enough.
    """

    rounds: int
    budget_s: float
    least_passes: int
    before: Mapping[str, float] = field(factory=dict)
    clock: Callable[[], float] = time.monotonic
    warm_pass_s: float | None = field(default=None, init=False)
    stopped_early: bool = field(default=False, init=False)
    _phase: str = field(default="setup", init=False)
    _since: float = field(init=False, default=Factory(lambda self: self.clock(), takes_self=True))
    _round: int = field(default=0, init=False)
    _spent: dict[str, float] = field(factory=dict, init=False)
    _passes: int = field(default=0, init=False)
    _passes_s: float = field(default=0.0, init=False)
    _in_round: int = field(default=0, init=False)

    def enter(self, phase: str) -> None:
        """A phase begins: one of `PHASES`, or `FINAL`."""
        now = self.clock()
        self._spent[self._phase] = self._spent.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def begin_round(self, number: int) -> None:
        """A round begins. What the rounds before it took says what it takes."""
        self._round = number
        if number:
            self.enter("setup")

    def begin_sampling(self) -> None:
        """No pass of this round was taken yet."""
        self.enter("sampling")
        self._in_round = 0

    def note_pass(self, seconds: float) -> None:
        """A pass was taken."""
        self._passes += 1
        self._in_round += 1
        self._passes_s += seconds

    @property
    def whole_s(self) -> float:
        """The estimate for a whole run, before its start."""
        rounds = sum(self._expected(phase, self.before.get("pass", 0.0)) for phase in PHASES)
        return self.rounds * rounds + self.before.get(FINAL, 0.0)

    @property
    def seconds_left(self) -> float:
        """The estimate for what is left of the run."""
        elapsed, pass_s = self.clock() - self._since, self._pass_s
        if self._phase == FINAL:
            return max(0.0, self._expected(FINAL, pass_s) - elapsed)
        place = PHASES.index(self._phase)
        left = max(0.0, self._expected(self._phase, pass_s) - elapsed)
        if self._phase == "sampling":
            left = max(left, (self.least_passes - self._in_round) * pass_s)
        later = sum(self._expected(phase, pass_s) for phase in PHASES[place + 1 :])
        rounds = (self.rounds - 1 - self._round) * sum(self._expected(phase, pass_s) for phase in PHASES)
        return left + later + rounds + self._expected(FINAL, pass_s)

    @property
    def durations(self) -> dict[str, float]:
        """The seconds that the run took, to be stored when it has ended."""
        self.enter(FINAL)
        each = {phase: self._spent.get(phase, 0.0) / self.rounds for phase in PHASES}
        if not self.stopped_early:
            del each["sampling"]  # the budget of the next run decides
        return {**each, FINAL: self._spent.get(FINAL, 0.0), "pass": self._pass_s}

    @property
    def _pass_s(self) -> float:
        if self._passes:
            return self._passes_s / self._passes
        return self.before.get("pass", 0.0) if self.warm_pass_s is None else self.warm_pass_s

    def _expected(self, phase: str, pass_s: float) -> float:
        """The seconds of a phase in a round: as in the rounds that have ended, else as in an earlier run."""
        if phase == FINAL:
            return self.before.get(FINAL, 0.0)
        ended = self._round if PHASES.index(phase) >= (*PHASES, FINAL).index(self._phase) else self._round + 1
        if ended and phase in self._spent:
            return self._spent[phase] / ended
        if phase != "sampling":
            return self.before.get(phase, 0.0)
        most = max(self.budget_s, self.least_passes * pass_s)
        return min(most, self.before.get("sampling", most))


class Store:
    """The durations of earlier runs, in the cache folder. A store that cannot be read or written is empty."""

    def __init__(self) -> None:
        self._path: Path = cache_folder() / _FILE
        self._known: dict[str, object] | None = None

    def of(self, key: str) -> dict[str, float]:
        """The durations under a key; empty where there are none."""
        if self._known is None:
            self._known = self._read()
        found = self._known.get(key)
        if not isinstance(found, dict):
            return {}
        names = {*PHASES, FINAL, "pass"}
        return {name: float(one) for name, one in found.items() if name in names and _is_time(one)}

    def keep(self, key: str, durations: Mapping[str, float]) -> None:
        """Store the durations of a run that has ended. Those stored longest ago make room."""
        kept = {name: one for name, one in self._read().items() if name != key}  # other runs store theirs meanwhile
        while len(kept) >= _MOST_STORED:
            del kept[next(iter(kept))]
        self._known = {**kept, key: dict(durations)}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(self._path, json.dumps(self._known).encode())

    def _read(self) -> dict[str, object]:
        try:
            found = jsontext.loads(self._path.read_bytes())
        except (OSError, ValueError):  # JsonError among them
            return {}
        return found if isinstance(found, dict) else {}


def key_of(*parts: object) -> str:
    """A key for a target at a size on a device, with the names of its implementations."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


@define(eq=False)
class Progress:
    """Tells a reporter of phases and of progress.

    started: the start of the run, by `time.monotonic`.
    round: the round of fresh processes, from 1; None before the first.
    passes: passes that were taken, in all rounds.
    undecided: the name of the implementation whose interval is not narrow enough yet, with that interval.
    """

    setup: Setup
    conditions: Conditions
    left: TimeLeft
    started: float
    round: int | None = None
    passes: int = 0
    undecided: tuple[str, Estimate | None] | None = None
    _reported: float = -math.inf

    def tell(self, phase: str, one: Participant | None = None) -> None:
        """A phase, or a step of a phase, begins."""
        self.setup.reporter.phase(phase, one.name if one else None)
        self.setup.reporter.progress(self._state(phase, one))

    def begin_round(self, number: int) -> None:
        """A round begins, numbered from 0."""
        self.round = number + 1
        self.left.begin_round(number)

    def begin_sampling(self) -> None:
        """No pass of this round was taken yet."""
        self._reported, self.undecided = -math.inf, None
        self.left.begin_sampling()

    def report(self, one: Participant) -> None:
        """A block of an implementation begins. A thousand blocks may take a second; a report takes a part of it."""
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            self.tell("sampling", one)

    def _state(self, phase: str, one: Participant | None) -> events.Progress:
        left, elapsed = self.left.seconds_left, time.monotonic() - self.started
        waiting, interval = self.undecided or (None, None)
        device = self.conditions.state
        return events.Progress(
            target=self.setup.plan.name,
            phase=phase,
            implementation=one.name if one else None,
            seconds_left=left,
            share=elapsed / max(elapsed + left, 1e-9),
            samples=len(one.observed.samples.step) if one else 0,
            undecided=waiting,
            interval=(interval.low, interval.high) if interval else None,
            wanted=self.setup.options.stopping.width,
            round=self.round,
            rounds=self.setup.options.rounds,
            block=self.passes,
            **(asdict(device) if device else {}),
        )
