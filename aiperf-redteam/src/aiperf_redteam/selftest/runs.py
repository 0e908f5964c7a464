"""Runs of cases: the key of a run, the cases that share it, and what it said of one of them.

Implementations of one module that are tried under the same conditions share a run, beside one baseline: each has a
process of its own, so that they leave each other alone. A case that disturbs others has a run of its own.

A run beside another one is noisier. It counts where a guard decides that looks at values, files or processes. Where
times decide, and where an attack shows no gain beside another run, a run is made alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import define, evolve, field, frozen

from aiperf_core import units
from aiperf_core.proofs.outcomes import Outcome
from aiperf_core.proofs.recording import CONDITIONS
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats.conditions import BACKGROUND
from aiperf_core.validity.cases import WORD, Case

# A tier of the selftest: the standard one with its controls, of one round of fresh processes.
ONE_ROUND = "one-round"
TIERS = ("quick", ONE_ROUND, "standard")
# Sampling time of a run of one case by its tier, in seconds: enough for a gain that is worth an attack.
BUDGET_S = {"quick": 0.1, ONE_ROUND: 0.3, "standard": 0.6}
# Load of other processes is read twice a second, so that an attack on `conditions` needs a longer run, in seconds.
FOR_READINGS_S = 3.0

LIGHT = "faster_than_light"
LINT = "task_lint"
PROCESS = "own_process"
# Off in both runs of an attack, unless it is on them. Light would refuse most attacks on any guard, and so hide whether
# theirs is worth something; the others look at what the harness itself does, and see that a guard is off.
BESIDE = frozenset({LIGHT, "self_check", "versions"})
# Guards that decide by times, or by the time that processors worked: nothing runs beside them.
OF_TIMES = frozenset(
    {
        LIGHT,
        CONDITIONS,
        "clocks_agree",
        "cold_cache",
        "cupti_ledger",
        "gc_paused",
        "interleaved",
        "late_write",
        "process_census",
        "ranks",
        "repeat_against_fresh",
        "warm_up",
    }
)
# Guards that compare rounds of fresh processes: one round shows them nothing.
OF_ROUNDS = frozenset({PROCESS, "warm_up"})

# Beyond this gain an INCONCLUSIVE end says that the machine is noisy, and not that there is no gain.
CLEAR = 2.0
# In a run that is shared, an end that says nothing counts as no gain up to here; beyond, the case gets a run of its
# own.
NO_GAIN = 1.05
_COMPARED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE)


class NotTriedError(Exception):
    """A case could not be tried."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@frozen
class Run:
    """Verdicts and findings of a run about the baseline and the case's implementation.

    crowd: how many cases it was shared with.
    beside: whether another run was made beside it.
    load: the share of the processors that others used meanwhile; None where it is not known.
    """

    baseline: Row
    row: Row
    crowd: int = 1
    beside: bool = False
    load: float | None = None

    def __str__(self) -> str:
        speedup = f" {self.row.speedup.value:.3g}x" if self.row.speedup and self.row.verdict in _COMPARED else ""
        usual = {finding.issue for finding in self.baseline.findings}
        named = ", ".join(issue for issue in self.issues if issue not in usual or issue in self.invalid)
        return f"{self.row.verdict}{speedup}" + (f" ({named})" if named else "")

    @property
    def shared(self) -> bool:
        """Whether something else ran with it."""
        return self.crowd > 1 or self.beside

    @property
    def issues(self) -> list[str]:
        """The issues that were found in the implementation."""
        return list(dict.fromkeys(finding.issue for finding in self.row.findings))

    @property
    def invalid(self) -> list[str]:
        """Findings that make a row invalid."""
        return [finding.issue for finding in self.row.findings if finding.severity == "invalid"]

    @property
    def has_word(self) -> bool:
        """Whether the implementation wrote that it has what it was after."""
        return any(WORD in line for line in self.row.log)

    @property
    def is_noisy(self) -> bool:
        """Whether noise hides a gain that an attack may well have: this machine is too busy to tell."""
        speedup = self.row.speedup
        return self.row.verdict is Verdict.INCONCLUSIVE and speedup is not None and speedup.value > CLEAR

    @property
    def is_unsure(self) -> bool:
        """Whether more samples might show a gain."""
        speedup = self.row.speedup
        return self.row.verdict is Verdict.INCONCLUSIVE and (speedup is None or speedup.value > NO_GAIN)

    @property
    def disturbed(self) -> str:
        """Message about other processes that ran meanwhile; empty on a quiet machine."""
        if self.load is not None:
            busy = self.load > BACKGROUND
            return f"other processes kept {units.percent(self.load)} of the processors busy" if busy else ""
        every = (finding for row in (self.row, self.baseline) for finding in row.findings)
        return next((finding.message for finding in every if finding.issue == "environment.background_load"), "")

    def tells_of(self, issue: str) -> bool:
        """Whether an issue was found, in the implementation or in the baseline."""
        return any(finding.issue == issue for row in (self.row, self.baseline) for finding in row.findings)


@frozen(kw_only=True)
class RunKey:
    """Everything that a run depends on: runs with equal keys say the same.

    names: the implementations beside the baseline.
    candidate: whether the implementation is judged as untrusted code.
    one_process: whether the harness is the one of one process.
    off: the guards that are switched off.
    light: whether ceilings are known.
    longer: how many times as long as usual.
    """

    module: str
    device: str
    names: frozenset[str]
    candidate: bool = False
    one_process: bool = False
    tier: str = TIERS[0]
    off: frozenset[str] = frozenset()
    light: bool = False
    longer: float = 1.0


@frozen
class Job:
    """A run that is made ahead, for the first case that needs it."""

    case: Case
    key: RunKey


@define(eq=False)
class Sharing:
    """The cases of a selftest by the runs that they share.

    guards: the guard of each issue.
    """

    guards: Mapping[str, str]
    _crowds: dict[tuple[object, ...], set[str]] = field(factory=lambda: defaultdict(set), init=False)

    def add(self, case: Case) -> None:
        """Let a case share its runs."""
        if not (case.alone or case.candidate):
            for off in self._sides(case):
                key = self.key(case, self.tiers(case)[0], off=off, alone=True)
                self._crowds[self._crowd(case, key, off)].add(case.implementation)

    def key(self, case: Case, tier: str, *, off: bool, alone: bool = False, longer: float | None = None) -> RunKey:
        """The run of a case with its guard `off` or on; in its first tier, if not `alone`, with those that share it."""
        guard = self.guards[case.issue]
        guards_off = frozenset() if case.honest else BESIDE | {guard, *case.other_guards} if off else BESIDE - {guard}
        if longer is None:
            longer = FOR_READINGS_S / BUDGET_S[tier] if guard == CONDITIONS else 1.0
        key = RunKey(
            module=case.module,
            device=case.device,
            names=frozenset({case.implementation}),
            candidate=case.candidate,
            tier=tier,
            off=guards_off,
            light=guard == LIGHT,
            longer=longer,
        )
        if alone or case.alone or case.candidate or tier != self.tiers(case)[0]:
            return key
        return evolve(key, names=key.names | self._crowds[self._crowd(case, key, off)])

    @staticmethod
    def key_of_one_process(case: Case) -> RunKey:
        """The run of a case in a harness of one process."""
        return RunKey(module=case.module, device=case.device, names=frozenset({case.implementation}), one_process=True)

    def tiers(self, case: Case) -> tuple[str, ...]:
        """The tiers in which a case is tried, one after the other."""
        if case.tier != "standard":
            return ("quick", "standard")
        return ("standard",) if self.guards[case.issue] in OF_ROUNDS else (ONE_ROUND, "standard")

    def jobs(self, cases: Iterable[Case], lacking: Callable[[Case], str]) -> list[Job]:
        """The runs of these cases that can be made side by side, those with most implementations first.

        lacking: why a case cannot be tried here; empty where it can.
        """
        jobs: dict[RunKey, Job] = {}
        for case in cases:
            if self._can_be_beside(case) and not lacking(case):
                for key in self._first_keys(case):
                    jobs.setdefault(key, Job(case, key))
        return sorted(jobs.values(), key=lambda job: -len(job.key.names))

    def _first_keys(self, case: Case) -> Iterator[RunKey]:
        if self.guards[case.issue] == PROCESS and not case.honest:
            yield self.key_of_one_process(case)
        for off in self._sides(case):
            yield self.key(case, self.tiers(case)[0], off=off)

    def _sides(self, case: Case) -> tuple[bool, ...]:
        """Whether there is a run of a case in the harness with its guard off, and one with it on."""
        if case.honest:
            return (False,)
        # These two have no switch in the harness.
        return {LINT: (True,), PROCESS: (False,)}.get(self.guards[case.issue], (True, False))

    def _can_be_beside(self, case: Case) -> bool:
        return not (case.alone or case.needs or self.guards[case.issue] in OF_TIMES)

    def _crowd(self, case: Case, key: RunKey, off: bool) -> tuple[object, ...]:
        """Everything that cases which share a run have in common."""
        return evolve(key, names=frozenset()), off, self._can_be_beside(case)
