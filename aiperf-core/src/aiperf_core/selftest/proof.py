"""Proof of the registry: each attack gains with its guard off, is caught with it on, and honest code is left alone.

Two runs that differ in nothing but the guard decide about an attack. Without its guard it must have what it `gains`;
with all guards on it must be found, or have no gain any more. What the quick tier does not catch is tried again in the
`standard` one, whose rounds and controls are part of the harness too; only then, and on a quiet machine, is it missed:
beside other work it is not decided. A case that needs its controls is tried in one round of processes first. Two
guards have no switch in the harness: an attack on `task_lint` is a benchmark whose judge can be fooled, which must gain
in a run and be refused by `aiperf lint`; one on `own_process` must gain in a harness of one process.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from attrs import define, evolve, field

from aiperf_core.devices.device import CUDA
from aiperf_core.errors import BundleError
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.setup import Plan, Reporter
from aiperf_core.results.models import Verdict
from aiperf_core.selftest import kept_cache, recording
from aiperf_core.selftest.lanes import Lanes
from aiperf_core.selftest.outcomes import PROVEN, Outcome, Proof, Proven
from aiperf_core.selftest.runs import NotTriedError, Run
from aiperf_core.selftest.sharing import LIGHT, LINT, OF_TIMES, PROCESS, Job, Sharing
from aiperf_core.selftest.support import name_of
from aiperf_core.selftest.trials import BUDGET_S, ONE_ROUND, ProofPlanner, Trials
from aiperf_core.targets import DEVICES
from aiperf_core.validity.assess import built_in
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.policy import Policy

TIERS = ("quick", ONE_ROUND, "standard")
# An answer that noise hides is looked for again so often, with fresh processes and for so many times as long as in a
# quick run; a harness of one process, in which allocators and caches decide, is asked as often.
LOOK_LONGER = 4
LOOK_AGAIN = 2
# Load of other processes is read twice a second, so that an attack on `conditions` needs a longer run, in seconds.
FOR_READINGS_S = 3.0
# Fewer runs are made one after the other: each lane imports torch first.
LEAST_AHEAD = 12
RECORDED_CASE = "recorded evidence"

_REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)


class ProofReporter(Reporter, Protocol):
    """Who is told how the proving goes on."""

    def made_ahead(self, index: int, total: int) -> None:
        """`index` of `total` runs that are made side by side are done."""

    def case_started(self, issue: str, case: str, device: str, index: int, total: int) -> None:
        """A case's turn has come; `index` counts from 1."""

    def case_finished(self, proof: Proof) -> None:
        """A case is done."""


@define(eq=False)
class Prover:
    """Proves cases one after the other, in one planner.

    issues: the registry, that of plugins included. device: the only one to use; None takes every one that is here.
    checks: those that recorded evidence is shown to. of_plugins: the checks of plugins. lanes: make runs ahead, side by
    side; None makes all runs one after the other.
    """

    planner: ProofPlanner
    logs: Path
    issues: Sequence[Issue]
    device: str | None
    reporter: ProofReporter
    checks: Sequence[Check] = field(factory=built_in)
    of_plugins: tuple[Check, ...] = ()
    lanes: Lanes | None = None
    _trials: Trials = field(init=False)
    _guards: dict[str, str] = field(init=False)
    _policy: Policy = field(init=False)
    _sharing: Sharing = field(init=False)
    _index: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    @_trials.default
    def _in_session(self) -> Trials:
        severities = {one.id: one.severity for one in self.issues}
        return Trials(self.planner, self.logs, self.device, self.reporter, self.of_plugins, severities)

    @_guards.default
    def _by_issue(self) -> dict[str, str]:
        return {one.id: one.guard for one in self.issues}

    @_sharing.default
    def _of_guards(self) -> Sharing:
        return Sharing(self._guards)

    @_policy.default
    def _of_issues(self) -> Policy:
        return Policy(severities={one.id: one.severity for one in self.issues})

    def prove(self, chosen: Iterable[Issue], cases: Iterable[Case], recorded: Iterable[Recorded]) -> Iterator[Proven]:
        """Try the cases of the chosen issues, issue by issue. Raises `KeyboardInterrupt` for Ctrl-C."""
        work: list[tuple[Issue, list[Case], list[Recorded]]] = []
        cases, recorded = tuple(cases), tuple(recorded)
        for issue in chosen:
            # Attacks first: a look-alike is tried in the tier that they need.
            of_it = sorted((one for one in cases if one.issue == issue.id), key=lambda one: one.honest)
            work.append((issue, of_it, [one for one in recorded if one.issue == issue.id]))
            for case in of_it:
                self._sharing.add(case)
        self._make_ahead((issue, tried) for issue, tried, _ in work)
        self._index, self._total = 0, sum(len(tried) + len(shown) for _, tried, shown in work)
        for issue, tried, shown in work:
            proofs = tuple(self._prove(issue, tried, shown))
            yield Proven(issue=issue.id, guard=issue.guard, proofs=proofs, untried=_untried(issue))

    def _make_ahead(self, tried: Iterable[tuple[Issue, Iterable[Case]]]) -> None:
        """Make the runs side by side that can be."""
        jobs = self._sharing.jobs(tried, self._trials) if self.lanes else []
        if self.lanes is None or len(jobs) < LEAST_AHEAD:
            return
        self.reporter.made_ahead(0, len(jobs))
        made = self.lanes.make(jobs, meanwhile=lambda: self._measure_gpu(jobs))
        for index, (job, rows, seconds) in enumerate(made, 1):
            if rows is not None:
                self._trials.keep(job.key, rows, seconds)
            self.reporter.made_ahead(index, len(jobs))

    def _measure_gpu(self, jobs: Iterable[Job]) -> None:
        """Measure what every run on the GPU needs once, while nothing else uses it. The lanes find it on disk."""
        if any(job.case.device == CUDA.name for job in jobs):
            self.planner.ceilings(CUDA.name)
            self.planner.flush_bound(CUDA.name)

    def _prove(self, issue: Issue, cases: Iterable[Case], recorded: Iterable[Recorded]) -> Iterator[Proof]:
        tiers = dict.fromkeys(DEVICES, TIERS[0])
        for case in cases:
            proof = self._tell(case, issue, tiers[case.device])
            if proof.tier and not case.honest:
                tiers[case.device] = max(proof.tier, tiers[case.device], key=TIERS.index)
            yield proof
        for evidence in recorded:
            yield self._tell_recorded(evidence)

    def _tell(self, case: Case, issue: Issue, tier: str) -> Proof:
        """Try a case, and tell the reporter."""
        self._index += 1
        kind = "honest look-alike" if case.honest else "attack"
        self.reporter.case_started(issue.id, f"{kind} {name_of(case)}", case.device, self._index, self._total)
        started = time.monotonic()
        try:
            plan = self._trials.plan(case, issue)
            proof = self._clear(case, plan, tier) if case.honest else self._attack(case, plan)
        except NotTriedError as error:
            proof = self._proof(case, error.outcome, reason=str(error))
        proof = evolve(proof, seconds=time.monotonic() - started + self._trials.claimed_s())
        self.reporter.case_finished(proof)
        return proof

    # --- attacks

    def _attack(self, case: Case, plan: Plan) -> Proof:
        """See whether an attack gains without its guard and is caught with it, in as many tiers as that takes."""
        tiers = self._sharing.tiers(case)
        reasons: dict[str, str] = {}
        for tier in tiers:
            proof = self._attack_in(case, plan, tier)
            if proof.outcome in (*PROVEN, Outcome.NOT_OBSERVABLE):
                return proof
            reasons[tier] = proof.reason
        if len(set(reasons.values())) == 1:
            return proof
        return evolve(proof, reason="; ".join(f"in the {tier} tier: {reason}" for tier, reason in reasons.items()))

    def _attack_in(self, case: Case, plan: Plan, tier: str) -> Proof:
        guard = self._guards[case.issue]
        without = self._without(case, plan, tier)
        if void := self._void(case, without):
            outcome = Outcome.UNDECIDED if without.is_noisy else Outcome.VOID
            return self._proof(case, outcome, tier, off=str(without), reason=void).beside(without.disturbed)
        if guard == LINT:
            return self._refused(case, plan, tier, without)
        whole = self._run(case, plan, tier, off=False)
        outcome = self._caught(case, without, whole)
        says_little = outcome is Outcome.MISSED or (outcome is Outcome.PREVENTED and whole.is_unsure)
        if (whole.shared and says_little) or self._refused_by_times(case, whole):
            whole = self._run(case, plan, tier, off=False, alone=True)
            outcome = self._caught(case, without, whole)
        reason = f"{whole} with all guards on, {without} without {guard!r}"
        if outcome is Outcome.PREVENTED and case.gains != "word" and whole.is_noisy:
            outcome = Outcome.UNDECIDED
        if outcome is Outcome.MISSED and (weak := _weak(case, whole)):
            outcome, reason = Outcome.NOT_OBSERVABLE, weak
        reason = "" if outcome in PROVEN else reason
        # What was found in both runs may have been found without the guard for the work of others alone.
        load = whole.disturbed or (without.disturbed if {*whole.issues} & {*without.issues} else "")
        return self._proof(case, outcome, tier, off=str(without), on=str(whole), reason=reason).beside(load)

    def _without(self, case: Case, plan: Plan, tier: str) -> Run:
        """A run without the guard. Where it shows no gain beside others, the attack is tried by itself."""
        guard = self._guards[case.issue]
        if guard == PROCESS:
            key = self._trials.key_of_one_process(case)
            run = self._trials.run(case, plan, key, fresh=tier != self._sharing.tiers(case)[0])
            for _ in range(LOOK_AGAIN + run.shared):
                if not self._void(case, run):
                    break
                run = self._trials.run(case, plan, key, fresh=True)
            return run
        run = self._run(case, plan, tier, off=True, gaining=True)
        if run.shared and self._void(case, run):
            run = self._run(case, plan, tier, off=True, gaining=True, alone=True)
        return run

    def _refused(self, case: Case, plan: Plan, tier: str, without: Run) -> Proof:
        """See whether a linter refuses the benchmark that an attack gains in."""
        if problems := self._lint(plan):
            return self._proof(case, Outcome.FOUND, tier, off=str(without), on=problems[0])
        reason = f"{without}, and lint finds nothing wrong with the judge"
        return self._proof(case, Outcome.MISSED, tier, off=str(without), reason=reason)

    def _lint(self, plan: Plan) -> list[str]:
        self.reporter.phase("lint")
        try:
            return self.planner.lint(plan)
        except ChildError as error:
            raise NotTriedError(Outcome.ERROR, f"could not be linted: {error}") from None

    def _void(self, case: Case, run: Run) -> str:
        """Why an attack gains nothing without its guard; empty where it does."""
        guard, row = self._guards[case.issue], run.row
        because = f": {row.reason}" if row.reason else ""
        if case.gains == "silence":
            told = row.verdict in _REFUSED or run.tells_of(case.issue)
            return f"is not silent without {guard!r}: {run}{because}" if told else ""
        if case.gains == "word":
            return "" if run.has_word else f"does not get what it is after without {guard!r}: {run}{because}"
        return "" if row.verdict is Verdict.FASTER else f"is not FASTER without {guard!r}: {run}{because}"

    def _caught(self, case: Case, without: Run, whole: Run) -> Outcome:
        """What became of an attack that gains without its guard."""
        guard = self._guards[case.issue]
        if case.gains == "word":
            return Outcome.MISSED if whole.has_word else Outcome.PREVENTED
        own = {issue for issue in whole.issues if self._guards.get(issue) == guard}
        # Other guards may need it, as the comparison of outputs needs fresh values; but times differ by chance.
        others = {issue for issue in whole.invalid if self._guards.get(issue) not in OF_TIMES}
        # What is found without the guard is not found by it.
        if (own | others) - set(without.issues):
            return Outcome.FOUND
        if whole.tells_of(case.issue) and not without.tells_of(case.issue):
            return Outcome.FOUND
        if whole.row.verdict is Verdict.FAILED or (case.gains == "verdict" and whole.row.verdict is not Verdict.FASTER):
            return Outcome.PREVENTED
        return Outcome.MISSED

    def _refused_by_times(self, case: Case, run: Run) -> bool:
        """Whether an attack was refused for its times alone, which a run beside it may have changed."""
        by = {self._guards.get(issue) for issue in (*run.invalid, *({case.issue} & set(run.issues)))}
        return run.beside and run.row.verdict in _REFUSED[:2] and by <= OF_TIMES

    # --- look-alikes

    def _clear(self, case: Case, plan: Plan, tier: str) -> Proof:
        """See whether an honest look-alike is left alone. After another finding it is tried once more, by itself."""
        if self._guards[case.issue] == LINT and (problems := self._lint(plan)):
            return self._proof(case, Outcome.FLAGGED, on="refused by lint", reason=problems[0])
        run = self._run(case, plan, tier, off=False)
        struck = self._struck(case, run)
        if struck and not run.tells_of(case.issue):
            run, first = self._run(case, plan, tier, off=False, alone=True), struck
            struck = self._struck(case, run)
            if not struck:
                reason = f"only when tried again; at first {first}"
                return self._proof(case, Outcome.CLEARED, tier, on=str(run), reason=reason)
        if struck:
            return self._proof(case, Outcome.FLAGGED, tier, on=str(run), reason=struck)
        if run.row.verdict is Verdict.FAILED:
            return self._proof(case, Outcome.ERROR, tier, on=str(run), reason=run.row.reason or "failed")
        return self._proof(case, Outcome.CLEARED, tier, on=str(run))

    @staticmethod
    def _struck(case: Case, run: Run) -> str:
        """What is held against an honest look-alike; empty where nothing is."""
        found = {*run.invalid, *((case.issue,) if run.tells_of(case.issue) else ())}
        if not found and run.row.verdict not in (Verdict.INVALID, Verdict.UNTRUSTED):
            return ""
        said = [one.message for one in (*run.row.findings, *run.baseline.findings) if one.issue in found]
        return f"{run}: {said[0] if said else run.row.reason}"

    # --- runs

    def _run(self, case: Case, plan: Plan, tier: str, *, off: bool, alone: bool = False, gaining: bool = False) -> Run:
        """A run of a case with its guard `off` or on, with the cases that share it, or a new one of the case `alone`.

        Where a verdict is what counts, and the case has run alone and INCONCLUSIVE, it runs again, longer than a quick
        one: what the machine did beside it is no answer. Where it must be `gaining` it is given every chance; else
        noise that hides a gain is looked through.
        """
        light = self._guards[case.issue] == LIGHT
        longer = FOR_READINGS_S / BUDGET_S[tier] if self._guards[case.issue] == recording.CONDITIONS else 1.0
        guards_off = self._sharing.guards_off(case, off=off)
        together = self._sharing.beside(case, off=off) if tier == self._sharing.tiers(case)[0] and not alone else ()
        key = self._trials.key(case, tier, guards_off, beside=together, light=light, longer=longer)
        run = self._trials.run(case, plan, key, fresh=alone)
        counts = case.gains == "verdict" and not case.honest and not run.shared
        quick = tier == TIERS[0]
        for look in range(LOOK_AGAIN if counts else 0):
            if gaining:
                unsettled = run.row.verdict is Verdict.INCONCLUSIVE
            else:
                unsettled = run.is_unsure if quick and look == 0 else run.is_noisy
            if not unsettled:
                break
            longer = LOOK_LONGER if quick else 1.0
            key = self._trials.key(case, tier, guards_off, light=light, longer=longer)
            run = self._trials.run(case, plan, key, fresh=True)
        return run

    @staticmethod
    def _proof(case: Case, outcome: Outcome, tier: str = "", *, off: str = "", on: str = "", reason: str = "") -> Proof:
        return Proof(
            case=name_of(case),
            honest=case.honest,
            device=case.device,
            outcome=outcome,
            reason=reason,
            off=off,
            on=on,
            tier=tier,
        )

    # --- on recorded evidence

    def _tell_recorded(self, recorded: Recorded) -> Proof:
        """Show recorded evidence to the checks of its guard, and tell the reporter."""
        self._index += 1
        started = time.monotonic()
        self.reporter.case_started(recorded.issue, RECORDED_CASE, "", self._index, self._total)
        outcome, reason = self._judged(recorded)
        proof = Proof(
            case=RECORDED_CASE,
            honest=recorded.honest,
            device="",
            outcome=outcome,
            reason=reason,
            seconds=time.monotonic() - started,
        )
        self.reporter.case_finished(proof)
        return proof

    def _judged(self, recorded: Recorded) -> tuple[Outcome, str]:
        """The outcome, and its reason where it is a failure."""
        guard, issue = self._guards[recorded.issue], recorded.issue
        if guard != recording.CONDITIONS and guard not in {one.guard for one in self.checks}:
            return Outcome.ERROR, f"{guard!r} has no check that looks at evidence"
        try:
            assessed = recording.look_at(recording.read(recorded.file), guard, self.checks)
        except BundleError as error:
            return Outcome.ERROR, str(error)
        if guard in assessed.failed:
            return Outcome.ERROR, assessed.failed[guard]
        if recorded.honest:
            wrong = [one for one in assessed.seen if one.issue == issue or self._policy.effect(one.issue) == "invalid"]
            return (Outcome.FLAGGED, f"{wrong[0].issue}: {wrong[0].message}") if wrong else (Outcome.CLEARED, "")
        if any(one.issue == issue for one in assessed.seen):
            return Outcome.RECORDED, ""
        if guard in assessed.not_observed:
            return Outcome.MISSED, f"the check did not look: {assessed.not_observed[guard]}"
        there = ", ".join(sorted({one.issue for one in assessed.seen}))
        return Outcome.MISSED, f"the check saw {there or 'nothing'} in the recording '{recorded.file}'"


def _untried(issue: Issue) -> Outcome:
    """The outcome of an issue none of whose attacks could be tried."""
    if issue.owed:
        return Outcome.OWED
    return Outcome.EXCLUDED if issue.excluded else Outcome.UNPROVEN


def unknown_issues(issues: Iterable[Issue], cases: Iterable[Case]) -> Iterator[Proven]:
    """The cases of unregistered issues, each as a mistake."""
    known = {one.id for one in issues}
    for one in cases:
        if one.issue not in known:
            proof = Prover._proof(one, Outcome.ERROR, reason=f"{one.issue!r} is in no registry")
            yield Proven(issue=one.issue, guard="", proofs=(proof,))


def _weak(case: Case, run: Run) -> str:
    """What this machine lacks without which an attack cannot be caught, and why; empty where it has all."""
    if kept_cache.NEED in case.needs:
        return kept_cache.lacking()
    lacking = run.row.confined.lacking if run.row.confined else {}
    return "; ".join(f"the sandbox has no {name!r} here: {lacking[name]}" for name in case.held_by if name in lacking)
