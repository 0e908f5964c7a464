"""Proof of the registry: each attack gains with its guard off, is caught with it on, and honest code is left alone.

Two runs that differ in nothing but the guard decide about an attack. Without its guard it must have what it `gains`;
with all guards on it must be found, or have no gain any more. What the quick tier does not catch is tried again in the
`standard` one, whose rounds and controls are part of the harness too; only then, and on a quiet machine, is it missed:
beside other work it is not decided. A case that needs its controls is tried in one round of processes first. Two
guards have no switch in the harness: an attack on `task_lint` is a benchmark whose judge can be fooled, which must gain
in a run and be refused by `aiperf lint`; one on `own_process` must gain in a harness of one process.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from attrs import define, evolve, field

from aiperf_core.devices.device import CUDA
from aiperf_core.errors import BundleError
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.setup import Reporter
from aiperf_core.proofs import recording
from aiperf_core.proofs.outcomes import PROVEN, Outcome
from aiperf_core.proofs.support import name_of
from aiperf_core.results.models import Verdict
from aiperf_core.targets import DEVICES
from aiperf_core.validity.assess import built_in
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.policy import Policy
from aiperf_redteam.selftest import kept_cache
from aiperf_redteam.selftest.outcomes import Proof, Proven
from aiperf_redteam.selftest.parallel import Lanes
from aiperf_redteam.selftest.runs import LINT, OF_TIMES, PROCESS, TIERS, NotTriedError, Run, Sharing
from aiperf_redteam.selftest.trials import ProofPlanner, Trials

# A case whose result noise hides is repeated LOOK_AGAIN times, with fresh processes and LOOK_LONGER times the sampling
# of a quick run. A case in the harness of one process, in which allocators and caches decide, is repeated as often.
LOOK_LONGER = 4
LOOK_AGAIN = 2
# Fewer runs are made one after the other: each lane imports torch first.
LEAST_AHEAD = 12
RECORDED_CASE = "recorded evidence"

_REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)


class ProofReporter(Reporter, Protocol):
    """Gets the progress of the proving."""

    def made_ahead(self, index: int, total: int) -> None:
        """`index` of `total` runs that are made side by side are done."""

    def case_started(self, issue: str, case: str, device: str, index: int, total: int) -> None:
        """A case's turn has come; `index` counts from 1."""

    def case_finished(self, proof: Proof) -> None:
        """A case is done."""


@define(eq=False)
class Prover:
    """Proves cases one after the other, in one planner.

    issues: the registry by id, that of plugins included. device: the only one to use; None takes every one that is
    here. checks: those that recorded evidence is shown to. of_plugins: the checks of plugins. lanes: make runs ahead,
    side by side; None makes all runs one after the other.
    """

    planner: ProofPlanner
    logs: Path
    issues: Mapping[str, Issue]
    device: str | None
    reporter: ProofReporter
    checks: Sequence[Check] = field(factory=built_in)
    of_plugins: tuple[Check, ...] = ()
    lanes: Lanes | None = None
    _guards: dict[str, str] = field(init=False)
    _trials: Trials = field(init=False)
    _sharing: Sharing = field(init=False)
    _index: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Make the parts."""
        self._guards = {issue.id: issue.guard for issue in self.issues.values()}
        self._trials = Trials(self.planner, self.logs, self.device, self.issues, self.reporter, self.of_plugins)
        self._sharing = Sharing(self._guards)

    def prove(self, chosen: Iterable[Issue], cases: Iterable[Case], recorded: Iterable[Recorded]) -> Iterator[Proven]:
        """Try the cases of the chosen issues, issue by issue. Raises `KeyboardInterrupt` for Ctrl-C."""
        work: dict[str, tuple[list[Case], list[Recorded]]] = {issue.id: ([], []) for issue in chosen}
        # Attacks first: a look-alike is tried in the tier that they need.
        for case in sorted(cases, key=lambda case: case.honest):
            if case.issue in work:
                work[case.issue][0].append(case)
                self._sharing.add(case)
        for evidence in recorded:
            if evidence.issue in work:
                work[evidence.issue][1].append(evidence)
        self._make_ahead(case for tried, _ in work.values() for case in tried)
        self._total = sum(len(tried) + len(shown) for tried, shown in work.values())
        for name, (tried, shown) in work.items():
            issue = self.issues[name]
            untried = Outcome.OWED if issue.owed else Outcome.EXCLUDED if issue.excluded else Outcome.UNPROVEN
            proofs = (*self._prove_cases(tried), *map(self._prove_recorded, shown))
            yield Proven(issue=name, guard=issue.guard, proofs=proofs, untried=untried)

    def _make_ahead(self, cases: Iterable[Case]) -> None:
        """Make the runs side by side that can be."""
        jobs = self._sharing.jobs(cases, self._trials.lacking) if self.lanes else []
        if self.lanes is None or len(jobs) < LEAST_AHEAD:
            return

        def measure_gpu() -> None:
            """Measure what every run on the GPU needs once, while nothing else uses it. The lanes find it on disk."""
            if any(job.case.device == CUDA.name for job in jobs):
                self.planner.ceilings(CUDA.name)
                self.planner.flush_bound(CUDA.name)

        self.reporter.made_ahead(0, len(jobs))
        for index, (job, rows, seconds) in enumerate(self.lanes.make(jobs, meanwhile=measure_gpu), 1):
            if rows is not None:
                self._trials.keep(job.key, rows, seconds)
            self.reporter.made_ahead(index, len(jobs))

    def _prove_cases(self, cases: Iterable[Case]) -> Iterator[Proof]:
        tiers = dict.fromkeys(DEVICES, TIERS[0])
        for case in cases:
            tier = tiers[case.device]
            kind = "honest look-alike" if case.honest else "attack"
            bare = Proof.of(case, Outcome.ERROR)
            proof = self._tried(case.issue, f"{kind} {name_of(case)}", bare, partial(self._decided, case, tier))
            if proof.tier and not case.honest:
                tiers[case.device] = max(proof.tier, tier, key=TIERS.index)
            yield proof

    def _decided(self, case: Case, tier: str) -> Proof:
        """The proof of a case. Raises `NotTriedError`."""
        self._trials.plan(case)
        return self._clear(case, tier) if case.honest else self._attack(case)

    def _prove_recorded(self, recorded: Recorded) -> Proof:
        """Show recorded evidence to the checks of its guard."""
        bare = Proof(case=RECORDED_CASE, honest=recorded.honest, device="", outcome=Outcome.ERROR)
        return self._tried(recorded.issue, RECORDED_CASE, bare, lambda: self._judged(recorded, bare))

    def _tried(self, issue: str, name: str, bare: Proof, judge: Callable[[], Proof]) -> Proof:
        """The proof that `judge` returns, or `bare` with the reason why there is none, with its seconds. Tells both."""
        self._index += 1
        self.reporter.case_started(issue, name, bare.device, self._index, self._total)
        started = time.monotonic()
        try:
            proof = judge()
        except NotTriedError as error:
            proof = evolve(bare, outcome=error.outcome, reason=str(error))
        proof = evolve(proof, seconds=time.monotonic() - started + self._trials.claimed_s())
        self.reporter.case_finished(proof)
        return proof

    # --- attacks

    def _attack(self, case: Case) -> Proof:
        """See whether an attack gains without its guard and is caught with it, in as many tiers as that takes."""
        reasons: dict[str, str] = {}
        for tier in self._sharing.tiers(case):
            proof = self._attack_in(case, tier)
            if proof.outcome in (*PROVEN, Outcome.NOT_OBSERVABLE):
                return proof
            reasons[tier] = proof.reason
        if len(set(reasons.values())) == 1:
            return proof
        return evolve(proof, reason="; ".join(f"in the {tier} tier: {reason}" for tier, reason in reasons.items()))

    def _attack_in(self, case: Case, tier: str) -> Proof:
        guard = self._guards[case.issue]
        without = self._without(case, tier)
        off = str(without)
        if void := self._void(case, without):
            outcome = Outcome.UNDECIDED if without.is_noisy else Outcome.VOID
            return Proof.of(case, outcome, tier, off=off, reason=void).beside(without.disturbed)
        if guard == LINT:
            if problems := self._lint(case):
                return Proof.of(case, Outcome.FOUND, tier, off=off, on=problems[0])
            reason = f"{without}, and lint finds nothing wrong with the judge"
            return Proof.of(case, Outcome.MISSED, tier, off=off, reason=reason)
        whole = self._run(case, tier, off=False)
        outcome = self._caught(case, without, whole)
        says_little = outcome is Outcome.MISSED or (outcome is Outcome.PREVENTED and whole.is_unsure)
        if (whole.shared and says_little) or self._refused_by_times(case, whole):
            whole = self._run(case, tier, off=False, alone=True)
            outcome = self._caught(case, without, whole)
        reason = f"{whole} with all guards on, {without} without {guard!r}"
        if outcome is Outcome.PREVENTED and case.gains != "word" and whole.is_noisy:
            outcome = Outcome.UNDECIDED
        if outcome is Outcome.MISSED and (weak := _weak(case, whole)):
            outcome, reason = Outcome.NOT_OBSERVABLE, weak
        reason = "" if outcome in PROVEN else reason
        # What was found in both runs may have been found without the guard for the work of others alone.
        load = whole.disturbed or (without.disturbed if {*whole.issues} & {*without.issues} else "")
        return Proof.of(case, outcome, tier, off=off, on=str(whole), reason=reason).beside(load)

    def _without(self, case: Case, tier: str) -> Run:
        """A run without the guard. Where it shows no gain beside others, the attack is tried by itself."""
        if self._guards[case.issue] == PROCESS:
            key = self._sharing.key_of_one_process(case)
            run = self._trials.run(case, key, fresh=tier != self._sharing.tiers(case)[0])
            for _ in range(LOOK_AGAIN + run.shared):
                if not self._void(case, run):
                    break
                run = self._trials.run(case, key, fresh=True)
            return run
        run = self._run(case, tier, off=True)
        if run.shared and self._void(case, run):
            run = self._run(case, tier, off=True, alone=True)
        return run

    def _lint(self, case: Case) -> list[str]:
        """The problems for which a linter refuses the benchmark of a case."""
        self.reporter.phase("lint")
        try:
            return self.planner.lint(self._trials.plan(case))
        except ChildError as error:
            raise NotTriedError(Outcome.ERROR, f"could not be linted: {error}") from None

    def _void(self, case: Case, run: Run) -> str:
        """Why an attack gains nothing without its guard; empty where it does."""
        guard, row = self._guards[case.issue], run.row
        if case.gains == "silence":
            gains, lacks = row.verdict not in _REFUSED and not run.tells_of(case.issue), "is not silent"
        elif case.gains == "word":
            gains, lacks = run.has_word, "does not get what it is after"
        else:
            gains, lacks = row.verdict is Verdict.FASTER, "is not FASTER"
        return "" if gains else f"{lacks} without {guard!r}: {run}" + (f": {row.reason}" if row.reason else "")

    def _caught(self, case: Case, without: Run, whole: Run) -> Outcome:
        """Outcome of an attack that gains without its guard."""
        if case.gains == "word":
            return Outcome.MISSED if whole.has_word else Outcome.PREVENTED
        own = {issue for issue in whole.issues if self._guards.get(issue) == self._guards[case.issue]}
        # Other guards may need it, as the comparison of outputs needs fresh values; but times differ by chance.
        others = {issue for issue in whole.invalid if self._guards.get(issue) not in OF_TIMES}
        # What is found without the guard is not found by it.
        if (own | others) - set(without.issues) or (whole.tells_of(case.issue) and not without.tells_of(case.issue)):
            return Outcome.FOUND
        if whole.row.verdict is Verdict.FAILED or (case.gains == "verdict" and whole.row.verdict is not Verdict.FASTER):
            return Outcome.PREVENTED
        return Outcome.MISSED

    def _refused_by_times(self, case: Case, run: Run) -> bool:
        """Whether an attack was refused for its times alone, which a run beside it may have changed."""
        by = {self._guards.get(issue) for issue in (*run.invalid, *({case.issue} & set(run.issues)))}
        return run.beside and run.row.verdict in _REFUSED[:2] and by <= OF_TIMES

    # --- look-alikes

    def _clear(self, case: Case, tier: str) -> Proof:
        """See whether an honest look-alike is left alone. After another finding it is tried once more, by itself."""
        if self._guards[case.issue] == LINT and (problems := self._lint(case)):
            return Proof.of(case, Outcome.FLAGGED, on="refused by lint", reason=problems[0])
        run = self._run(case, tier, off=False)
        outcome, reason = Outcome.CLEARED, ""
        if first := self._struck(case, run):
            outcome, reason = Outcome.FLAGGED, first
            if not run.tells_of(case.issue):
                run = self._run(case, tier, off=False, alone=True)
                reason = self._struck(case, run)
                if not reason:
                    outcome, reason = Outcome.CLEARED, f"only when tried again; at first {first}"
        elif run.row.verdict is Verdict.FAILED:
            outcome, reason = Outcome.ERROR, run.row.reason or "failed"
        return Proof.of(case, outcome, tier, on=str(run), reason=reason)

    @staticmethod
    def _struck(case: Case, run: Run) -> str:
        """The finding or verdict against an honest look-alike; empty where there is none."""
        against = {*run.invalid, *((case.issue,) if run.tells_of(case.issue) else ())}
        if not against and run.row.verdict not in (Verdict.INVALID, Verdict.UNTRUSTED):
            return ""
        said = [finding.message for finding in (*run.row.findings, *run.baseline.findings) if finding.issue in against]
        return f"{run}: {said[0] if said else run.row.reason}"

    # --- runs

    def _run(self, case: Case, tier: str, *, off: bool, alone: bool = False) -> Run:
        """A run of a case with its guard `off` or on, with the cases that share it, or a new one of the case `alone`.

        Where a verdict is what counts, and the case has run alone and INCONCLUSIVE, it runs again, longer than a quick
        one: what the machine did beside it is no answer. With its guard off it must gain, and is given every chance;
        else noise that hides a gain is looked through.
        """
        run = self._trials.run(case, self._sharing.key(case, tier, off=off, alone=alone), fresh=alone)
        counts = case.gains == "verdict" and not case.honest and not run.shared
        quick = tier == TIERS[0]
        for look in range(LOOK_AGAIN if counts else 0):
            if off:
                unsettled = run.row.verdict is Verdict.INCONCLUSIVE
            else:
                unsettled = run.is_unsure if quick and look == 0 else run.is_noisy
            if not unsettled:
                break
            longer = LOOK_LONGER if quick else 1.0
            run = self._trials.run(case, self._sharing.key(case, tier, off=off, alone=True, longer=longer), fresh=True)
        return run

    # --- on recorded evidence

    def _judged(self, recorded: Recorded, bare: Proof) -> Proof:
        """The proof of recorded evidence. Raises `NotTriedError`."""
        guard, issue = self._guards[recorded.issue], recorded.issue
        if guard != recording.CONDITIONS and guard not in {check.guard for check in self.checks}:
            raise NotTriedError(Outcome.ERROR, f"{guard!r} has no check that looks at evidence")
        try:
            assessed = recording.look_at(recording.read(recorded.file), guard, self.checks)
        except BundleError as error:
            raise NotTriedError(Outcome.ERROR, str(error)) from None
        if guard in assessed.failed:
            raise NotTriedError(Outcome.ERROR, assessed.failed[guard])
        outcome, reason = Outcome.MISSED, ""
        if recorded.honest:
            policy = Policy(severities={known.id: known.severity for known in self.issues.values()})
            wrong = [seen for seen in assessed.seen if seen.issue == issue or policy.effect(seen.issue) == "invalid"]
            outcome = Outcome.FLAGGED if wrong else Outcome.CLEARED
            reason = f"{wrong[0].issue}: {wrong[0].message}" if wrong else ""
        elif any(seen.issue == issue for seen in assessed.seen):
            outcome = Outcome.RECORDED
        elif guard in assessed.not_observed:
            reason = f"the check did not look: {assessed.not_observed[guard]}"
        else:
            there = ", ".join(sorted({seen.issue for seen in assessed.seen}))
            reason = f"the check saw {there or 'nothing'} in the recording '{recorded.file}'"
        return evolve(bare, outcome=outcome, reason=reason)


def unknown_issues(issues: Mapping[str, Issue], cases: Iterable[Case]) -> Iterator[Proven]:
    """The cases of unregistered issues, each as a mistake."""
    for case in cases:
        if case.issue not in issues:
            proof = Proof.of(case, Outcome.ERROR, reason=f"{case.issue!r} is in no registry")
            yield Proven(issue=case.issue, guard="", proofs=(proof,))


def _weak(case: Case, run: Run) -> str:
    """The part of this machine without which an attack cannot be caught, and why it lacks; empty where it has all."""
    if kept_cache.NEED in case.needs:
        return kept_cache.lacking()
    lacking = run.row.confined.lacking if run.row.confined else {}
    return "; ".join(f"the sandbox has no {name!r} here: {lacking[name]}" for name in case.held_by if name in lacking)
