"""Proof of the registry: that each attack gains with its guard off, is caught with it on, and honest code is left alone.

Two runs that differ in nothing but the guard decide about an attack. Without its guard it must have what it `gains`; with
all guards on it must be found, or have no gain any more. What the quick tier does not catch is tried again in the
`standard` one, whose rounds and controls are part of the harness too; only then is it missed. An attack on the guard
`task_lint` is a benchmark whose judge can be fooled: it must gain in a run, and `aiperf lint` must refuse it.
"""

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

import psutil
from attrs import define, evolve, field, frozen

from aiperf_core.devices.host import hypervisor
from aiperf_core.devices.probe import nvidia
from aiperf_core.harness.options import Options
from aiperf_core.harness.processes import ChildError
from aiperf_core.harness.session import Plan, Session
from aiperf_core.harness.supervisor import Reporter
from aiperf_core.redteam.cases import Case, Recorded
from aiperf_core.redteam.catalogue import PROVEN, Outcome, Proof, Proven, name_of
from aiperf_core.requirements import lacking
from aiperf_core.results.models import Ceilings, Row, SkippedTarget, Verdict
from aiperf_core.targets import DEVICES, InstalledTarget, Selection
from aiperf_core.validity.assess import assess, built_in
from aiperf_core.validity.check import Check
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.issues import Issue
from aiperf_core.validity.policy import Policy

TIERS = ("quick", "standard")
# Sampling time of a run by its tier, in seconds: enough for a gain that is worth an attack.
BUDGET_S: Mapping[str, float] = {"quick": 0.2, "standard": 0.9}
# An answer that noise hides is looked for once more, for so many times as long.
LOOK_LONGER = 4
# Beyond this gain an INCONCLUSIVE end says that the machine is noisy, and not that there is no gain.
CLEAR = 2.0
LIGHT = "faster_than_light"
LINT = "task_lint"
# What a linter's problem must be about for a judge to be worthless.
JUDGING = ("workload.", "reference.", "judge.", "budget.")
LINT_TIMEOUT_S = 300.0
# Off in both runs of an attack, unless it is on them. Light would refuse most attacks on any guard, and so hide whether
# theirs is worth something; the others look at what the harness itself does, and see that a guard is off.
BESIDE = frozenset({LIGHT, "conduct", "versions"})

_COMPARED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE)
_REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)


class ProofSession(Session):
    """A session that knows a processor's ceilings only where `light` is true: measuring them takes seconds.

    Those of a GPU hold what its events cost, which every run needs; they are kept on disk.
    """

    light: bool = False

    def __enter__(self) -> Self:
        return self

    def ceilings(self, device: str, again: bool = False) -> Ceilings | None:
        """What a device reaches, or None."""
        return super().ceilings(device, again) if device == "cuda" or self.light else None

    def lint(self, plan: Plan) -> list[str]:
        """What a linter finds wrong with the judge of a target, at its smallest sizes. Raises `ChildError`."""
        target, described = plan.selection.target, plan.described
        child = self.spawn("linter", f"lint-{target.name}-{plan.device}")
        try:
            outcomes = child.ask(
                "lint",
                timeout=LINT_TIMEOUT_S,
                target={"name": target.name, "module": target.module},
                device=plan.device,
                params=described.presets["smoke"],
                listed={"goal": described.goal, "devices": sorted({one.device for one in described.implementations})},
            )
        finally:
            child.kill()
        problems = [one for one in outcomes if one["verdict"] == "problem" and one["test"].startswith(JUDGING)]
        return [f"{one['test']}: {one['found']}" for one in problems]


class ProofReporter(Reporter, Protocol):
    """Who is told how the proving goes on."""

    def case_started(self, issue: str, case: str, device: str, index: int, total: int) -> None:
        """A case's turn has come; `index` counts from 1."""

    def case_finished(self, proof: Proof) -> None:
        """A case is done."""


class _NotTriedError(Exception):
    """A case could not be tried."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@frozen
class _Run:
    """What a run said of the baseline and of the case's implementation."""

    baseline: Row
    row: Row

    def __str__(self) -> str:
        speedup = f" {self.row.speedup.value:.3g}x" if self.row.speedup and self.row.verdict in _COMPARED else ""
        usual = {one.issue for one in self.baseline.findings}
        told = ", ".join(one for one in self.issues if one not in usual or one in self.invalid)
        return f"{self.row.verdict}{speedup}" + (f" ({told})" if told else "")

    @property
    def issues(self) -> list[str]:
        """The issues that were found in the implementation."""
        return list(dict.fromkeys(one.issue for one in self.row.findings))

    @property
    def invalid(self) -> list[str]:
        """Those of them that make a row invalid."""
        return [one.issue for one in self.row.findings if one.severity == "invalid"]

    def tells_of(self, issue: str) -> bool:
        """Whether an issue was found, in the implementation or in the baseline."""
        return any(one.issue == issue for row in (self.row, self.baseline) for one in row.findings)


@define(eq=False)
class Prover:
    """Proves cases one after the other, in one session.

    issues: the registry, that of plugins included. device: the only one to use; None takes every one that is here.
    checks: those that recorded evidence is shown to.
    """

    session: ProofSession
    logs: Path
    issues: Sequence[Issue]
    device: str | None
    reporter: ProofReporter
    checks: Sequence[Check] = field(factory=built_in)
    _plans: dict[tuple[str, str], Plan | _NotTriedError] = field(factory=dict, init=False)
    _guards: dict[str, str] = field(init=False)
    _policy: Policy = field(init=False)
    _index: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    @_guards.default
    def _by_issue(self) -> dict[str, str]:
        return {one.id: one.guard for one in self.issues}

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
        self._index, self._total = 0, sum(len(tried) + len(shown) for _, tried, shown in work)
        for issue, tried, shown in work:
            yield Proven(issue=issue.id, guard=issue.guard, proofs=tuple(self._prove(issue, tried, shown)))

    def _prove(self, issue: Issue, cases: Iterable[Case], recorded: Iterable[Recorded]) -> Iterator[Proof]:
        tiers = dict.fromkeys(DEVICES, TIERS[0])
        for case in cases:
            proof = self._tell(case, issue, tiers[case.device])
            if proof.tier and not case.honest:
                tiers[case.device] = max(proof.tier, tiers[case.device], key=TIERS.index)
            yield proof
        for evidence in recorded:
            yield from self._tell_recorded(evidence)

    def _tell(self, case: Case, issue: Issue, tier: str) -> Proof:
        """Try a case, and tell the reporter."""
        self._index += 1
        kind = "look-alike" if case.honest else "attack"
        self.reporter.case_started(issue.id, f"{kind} {name_of(case)}", case.device, self._index, self._total)
        started = time.monotonic()
        try:
            plan = self._plan(case, issue)
            proof = self._clear(case, plan, tier) if case.honest else self._attack(case, plan)
        except _NotTriedError as error:
            proof = self._proof(case, error.outcome, reason=str(error))
        proof = evolve(proof, seconds=time.monotonic() - started)
        self.reporter.case_finished(proof)
        return proof

    # --- before a run

    def _plan(self, case: Case, issue: Issue) -> Plan:
        """The run of a case's implementation beside the baseline. Raises `_NotTriedError` where there can be none."""
        if lack := self._lacking(issue, case):
            raise _NotTriedError(Outcome.NOT_OBSERVABLE, lack)
        key = case.module, case.device
        if key not in self._plans:
            self._plans[key] = self._planned(*key)
        plan = self._plans[key]
        if isinstance(plan, _NotTriedError):
            raise plan
        names = [one.name for one in plan.described.on(case.device) if one.role == "variant"]
        if case.implementation not in names:
            there = f"it has {', '.join(names)}" if names else "it has none"
            raise _NotTriedError(
                Outcome.ERROR, f"{case.module} has no variant {case.implementation!r} for {case.device}; {there}"
            )
        return evolve(plan, selection=evolve(plan.selection, implementations=frozenset({case.implementation})))

    def _planned(self, module: str, device: str) -> Plan | _NotTriedError:
        target = InstalledTarget(
            name=f"redteam.{module.rpartition('.')[2]}",
            module=module,
            summary="Attacks and honest look-alikes",
            goal="speed",
            devices=(device,),
            tags=(),
            distribution="aiperf-core",
            version="",
        )
        self.session.options = Options(device=device)
        plans, skipped = self.session.plan([Selection(target, frozenset())])
        return plans[0] if plans else _not_tried(skipped[0])

    def _lacking(self, issue: Issue, case: Case) -> str:
        """What this machine lacks for a case; empty where it has all."""
        needs = dict.fromkeys((*(("cuda",) if case.device == "cuda" else ()), *issue.needs, *case.needs))
        left_out = self.device not in (None, case.device) or (self.device == "cpu" and "cuda" in needs)
        if left_out:
            return f"left out by --device {self.device}"
        unmet = [need for need in needs if not self._offers(need)]
        return f"needs {', '.join(unmet)}" if unmet else ""

    def _offers(self, need: str) -> bool:
        """Whether this machine offers what an issue can need; see `aiperf_core.validity.issues.NEEDS`."""
        if need in ("cuda", "cupti"):
            return self.session.hardware.gpus > 0
        if need == "nvml":
            return bool(nvidia().driver)
        if need == "compiler":
            return lacking(need, self.session.hardware) is None
        if need == "linux":
            return sys.platform == "linux"
        if need == "bare_metal":
            return not hypervisor()
        count, _, least = need.partition(">=")
        # No target has several ranks yet.
        return count == "gpus" and self.session.hardware.gpus >= int(least)

    # --- with runs

    def _attack(self, case: Case, plan: Plan) -> Proof:
        """See whether an attack gains without its guard and is caught with it, in as many tiers as that takes."""
        proofs = (self._attack_in(case, plan, tier) for tier in TIERS)
        for proof in proofs:
            if proof.outcome in PROVEN:
                return proof
        return proof

    def _attack_in(self, case: Case, plan: Plan, tier: str) -> Proof:
        guard = self._guards[case.issue]
        beside = BESIDE - {guard}
        without = self._run(case, plan, tier, beside | {guard})
        if void := self._void(case, without):
            outcome = Outcome.ERROR if _noisy(without) else Outcome.VOID
            return self._proof(case, outcome, tier, off=str(without), reason=void)
        if guard == LINT:
            return self._refused(case, plan, tier, without)
        whole = self._run(case, plan, tier, beside)
        outcome, reason = self._caught(case, without, whole), f"{whole} with all guards on, {without} without {guard!r}"
        if outcome is Outcome.PREVENTED and _noisy(whole):
            outcome = Outcome.ERROR
        reason = "" if outcome in PROVEN else reason
        return self._proof(case, outcome, tier, off=str(without), on=str(whole), reason=reason)

    def _refused(self, case: Case, plan: Plan, tier: str, without: _Run) -> Proof:
        """See whether a linter refuses the benchmark that an attack gains in."""
        if problems := self._lint(plan):
            return self._proof(case, Outcome.FOUND, tier, off=str(without), on=problems[0])
        reason = f"{without}, and lint finds nothing wrong with the judge"
        return self._proof(case, Outcome.MISSED, tier, off=str(without), reason=reason)

    def _lint(self, plan: Plan) -> list[str]:
        self.reporter.phase("lint")
        try:
            return self.session.lint(plan)
        except ChildError as error:
            raise _NotTriedError(Outcome.ERROR, f"could not be linted: {error}") from None

    def _void(self, case: Case, run: _Run) -> str:
        """Why an attack gains nothing without its guard; empty where it does."""
        guard, row = self._guards[case.issue], run.row
        because = f": {row.reason}" if row.reason else ""
        if case.gains == "silence":
            told = row.verdict in _REFUSED or run.tells_of(case.issue)
            return f"is not silent without {guard!r}: {run}{because}" if told else ""
        return "" if row.verdict is Verdict.FASTER else f"is not FASTER without {guard!r}: {run}{because}"

    def _caught(self, case: Case, without: _Run, whole: _Run) -> Outcome:
        """What became of an attack that gains without its guard."""
        guard = self._guards[case.issue]
        own = {issue for issue in whole.issues if self._guards.get(issue) == guard}
        # What is found without the guard is not found by it.
        if {*own, *whole.invalid} - set(without.issues):
            return Outcome.FOUND
        if whole.tells_of(case.issue) and not without.tells_of(case.issue):
            return Outcome.FOUND
        if whole.row.verdict is Verdict.FAILED or (case.gains == "verdict" and whole.row.verdict is not Verdict.FASTER):
            return Outcome.PREVENTED
        return Outcome.MISSED

    def _clear(self, case: Case, plan: Plan, tier: str) -> Proof:
        """See whether a look-alike is left alone. One that is struck by something else is tried once more."""
        if self._guards[case.issue] == LINT and (problems := self._lint(plan)):
            return self._proof(case, Outcome.FLAGGED, on="refused by lint", reason=problems[0])
        run = self._run(case, plan, tier, frozenset())
        struck = self._struck(case, run)
        if struck and not run.tells_of(case.issue):
            run, first = self._run(case, plan, tier, frozenset()), struck
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
    def _struck(case: Case, run: _Run) -> str:
        """What is held against a look-alike; empty where nothing is."""
        found = {*run.invalid, *((case.issue,) if run.tells_of(case.issue) else ())}
        if not found and run.row.verdict not in (Verdict.INVALID, Verdict.UNTRUSTED):
            return ""
        said = [one.message for one in (*run.row.findings, *run.baseline.findings) if one.issue in found]
        return f"{run}: {said[0] if said else run.row.reason}"

    def _run(self, case: Case, plan: Plan, tier: str, off: frozenset[str]) -> _Run:
        """A run of a case beside its baseline.

        A longer one follows a quick one that ends INCONCLUSIVE, where a verdict is what counts.
        """
        run = self._run_once(case, plan, tier, off, BUDGET_S[tier])
        counts = case.gains == "verdict" and not case.honest and tier == TIERS[0]
        if counts and run.row.verdict is Verdict.INCONCLUSIVE:
            run = self._run_once(case, plan, tier, off, BUDGET_S[tier] * LOOK_LONGER)
        return run

    def _run_once(self, case: Case, plan: Plan, tier: str, off: frozenset[str], budget_s: float) -> _Run:
        self.session.light = self._guards[case.issue] == LIGHT
        self.session.options = Options(device=plan.device, tier=tier, budget_s=budget_s, energy=False, off=off)
        with _no_process_left():
            result = self.session.run(plan, lambda _, name: self.logs / f"{name}.log", self.reporter)
        if isinstance(result, SkippedTarget):
            raise _not_tried(result)
        if not result.complete:
            raise KeyboardInterrupt
        rows = {row.name: row for row in result.rows}
        run = _Run(result.rows[0], rows[case.implementation])
        for row in (run.baseline, run.row):
            if row.verdict is Verdict.SKIPPED:
                raise _NotTriedError(Outcome.NOT_OBSERVABLE, row.reason or "skipped")
        if run.baseline.verdict is not Verdict.MEASURED and not run.tells_of(case.issue):
            said = f"the baseline was {run.baseline.verdict}"
            raise _NotTriedError(Outcome.ERROR, f"{said}: {run.baseline.reason}" if run.baseline.reason else said)
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

    def _tell_recorded(self, recorded: Recorded) -> Iterator[Proof]:
        """Show recorded evidence to the check of a guard, and tell the reporter."""
        self._index += 1
        self.reporter.case_started(recorded.issue, "recorded evidence", "", self._index, self._total)
        for honest, evidence in ((False, recorded.guilty), (True, recorded.honest)):
            started = time.monotonic()
            outcome, reason = self._judged(recorded.issue, honest, evidence())
            proof = Proof(
                case="recorded evidence",
                honest=honest,
                device="",
                outcome=outcome,
                reason=reason,
                seconds=time.monotonic() - started,
            )
            self.reporter.case_finished(proof)
            yield proof

    def _judged(self, issue: str, honest: bool, evidence: Evidence) -> tuple[Outcome, str]:
        """The outcome, and why where it is a bad one."""
        guard = self._guards[issue]
        checks = [one for one in self.checks if one.guard == guard]
        if not checks:
            return Outcome.ERROR, f"{guard!r} has no check that looks at evidence"
        assessed = assess(evidence, checks)
        if guard in assessed.failed:
            return Outcome.ERROR, assessed.failed[guard]
        if honest:
            wrong = [one for one in assessed.seen if one.issue == issue or self._policy.effect(one.issue) == "invalid"]
            return (Outcome.FLAGGED, f"{wrong[0].issue}: {wrong[0].message}") if wrong else (Outcome.CLEARED, "")
        if any(one.issue == issue for one in assessed.seen):
            return Outcome.RECORDED, ""
        if guard in assessed.not_observed:
            return Outcome.MISSED, f"the check did not look: {assessed.not_observed[guard]}"
        there = ", ".join(sorted({one.issue for one in assessed.seen}))
        return Outcome.MISSED, f"the check saw {there or 'nothing'} in guilty evidence"


def unknown_issues(issues: Iterable[Issue], cases: Iterable[Case]) -> Iterator[Proven]:
    """The cases of issues that nobody registered, each as a mistake."""
    known = {one.id for one in issues}
    for one in cases:
        if one.issue not in known:
            proof = Prover._proof(one, Outcome.ERROR, reason=f"{one.issue!r} is in no registry")
            yield Proven(issue=one.issue, guard="", proofs=(proof,))


def _noisy(run: _Run) -> bool:
    """Whether noise hides a gain that an attack may well have: this machine is too busy to tell."""
    speedup = run.row.speedup
    return run.row.verdict is Verdict.INCONCLUSIVE and speedup is not None and speedup.value > CLEAR


def _not_tried(skipped: SkippedTarget) -> _NotTriedError:
    outcome = Outcome.ERROR if skipped.verdict is Verdict.FAILED else Outcome.NOT_OBSERVABLE
    return _NotTriedError(outcome, skipped.reason)


@contextlib.contextmanager
def _no_process_left() -> Iterator[None]:
    """End what a run has started and left behind: an attack's helpers would take time from the next one."""
    here = psutil.Process()
    before = set(here.children(recursive=True))
    try:
        yield
    finally:
        for one in set(here.children(recursive=True)) - before:
            with contextlib.suppress(psutil.Error):
                one.kill()
