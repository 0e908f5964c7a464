"""Which cases share a run, and which runs can be made side by side.

Implementations of one module that are tried under the same conditions share a run, beside one baseline: each has a
process of its own, so that they leave each other alone. Who says that it does not is given a run of its own.

A run beside another one is noisier. It counts where a guard decides that looks at values, files or processes. Where
times decide, and where an attack shows no gain beside another run, a run is made alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen

from aiperf_core.selftest import recording
from aiperf_core.selftest.runs import RunKey
from aiperf_core.selftest.trials import ONE_ROUND, Trials
from aiperf_core.validity.cases import Case
from aiperf_core.validity.issues import Issue

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
        recording.CONDITIONS,
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


@frozen
class Job:
    """A run that is made ahead, for the first case that needs it."""

    case: Case
    issue: Issue
    key: RunKey


@define(eq=False)
class Sharing:
    """The cases of a selftest by the runs that they share.

    guards: the guard of each issue.
    """

    guards: Mapping[str, str]
    _crowds: dict[tuple[object, ...], list[Case]] = field(factory=lambda: defaultdict(list), init=False)

    def add(self, case: Case) -> None:
        """Let a case share its runs."""
        for off in (True, False):
            self._crowds[self._together(case, off=off)].append(case)

    def beside(self, case: Case, *, off: bool) -> list[Case]:
        """The cases that share a case's run with its guard `off`, or with it on."""
        return self._crowds[self._together(case, off=off)]

    def guards_off(self, case: Case, *, off: bool) -> frozenset[str]:
        """The guards that are switched off in a case's run with its guard `off`, or with it on."""
        guard = self.guards[case.issue]
        if off:
            return BESIDE | {guard, *case.other_guards}
        return frozenset() if case.honest else BESIDE - {guard}

    def tiers(self, case: Case) -> tuple[str, ...]:
        """The tiers in which a case is tried, one after the other."""
        if case.tier != "standard":
            return ("quick", "standard")
        return ("standard",) if self.guards[case.issue] in OF_ROUNDS else (ONE_ROUND, "standard")

    def jobs(self, tried: Iterable[tuple[Issue, Iterable[Case]]], trials: Trials) -> list[Job]:
        """The runs of these cases that can be made side by side, those with most implementations first."""
        found: dict[RunKey, Job] = {}
        for issue, cases in tried:
            for case in cases:
                if self._can_be_beside(case) and not trials.lacking(issue, case):
                    for key in self._keys(case, trials):
                        found.setdefault(key, Job(case, issue, key))
        return sorted(found.values(), key=lambda one: -len(one.key.names))

    def _keys(self, case: Case, trials: Trials) -> Iterator[RunKey]:
        guard = self.guards[case.issue]
        if guard == PROCESS and not case.honest:
            yield trials.key_of_one_process(case)
        for off in (True, False):
            # An honest case runs with all guards on. Two guards have no switch in the harness.
            if (case.honest or guard == PROCESS) if off else (guard == LINT and not case.honest):
                continue
            guards_off, beside = self.guards_off(case, off=off), self.beside(case, off=off)
            yield trials.key(case, self.tiers(case)[0], guards_off, beside=beside)

    def _can_be_beside(self, case: Case) -> bool:
        return not (case.alone or case.needs or self.guards[case.issue] in OF_TIMES)

    def _together(self, case: Case, *, off: bool) -> tuple[object, ...]:
        """What cases that share a run have in common."""
        alike = self.guards_off(case, off=off), self._can_be_beside(case)
        return case.module, case.device, self.tiers(case)[0], case.honest, off, *alike
