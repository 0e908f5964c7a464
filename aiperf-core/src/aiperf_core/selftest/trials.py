"""Runs of cases: in the harness itself with some guards off, or in a harness of one process; several cases a run.

Implementations of one module that are tried under the same conditions share a run, beside one baseline: each has a
process of its own, so that they leave each other alone. Who says that it does not is given a run of its own.
"""

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Self

import psutil
from attrs import asdict, define, evolve, field, frozen

from aiperf_core.candidate_format import AIPERF
from aiperf_core.devices.host import hypervisor
from aiperf_core.devices.probe import nvidia
from aiperf_core.errors import UsageError
from aiperf_core.harness.isolation.candidate import check_candidate
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Plan, Planner
from aiperf_core.harness.run.setup import CANDIDATE, Reporter
from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.requirements import lacking
from aiperf_core.results.models import Row, SkippedTarget, Verdict
from aiperf_core.selftest.outcomes import Outcome
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_core.validity.cases import WORD, Case
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue, Severity

# Sampling time of a run of one case by its tier, in seconds: enough for a gain that is worth an attack.
BUDGET_S = {"quick": 0.1, "standard": 0.6}
LINT_TIMEOUT_S = ONE_PROCESS_TIMEOUT_S = 300.0
# What a linter's problem must be about for a judge to be worthless.
JUDGING = ("workload.", "reference.", "judge.", "budget.")
# Of one process, a difference by less may be noise.
WORTH = 1.25
# Lie beside the logs of a run: a file with an answer, and one of the harness's sources, for those who look for them.
BAITS = {"golden.bin": "the expected output", "reference.py": "def reference(x): ...\n"}
# Processes that a run left behind are looked for until none is found, at most this often.
_LISTINGS, _BETWEEN_LISTINGS_S = 50, 0.01
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")

_COMPARED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE)


class ProofPlanner(Planner):
    """A planner that knows a processor's ceilings only where `light` is true: measuring them takes seconds.

    Those of a GPU hold what its events cost, which every run needs; they are kept on disk.
    """

    light: bool = False

    def __enter__(self) -> Self:
        return self

    def ceilings(self, device: str, again: bool = False, groups: Collection[str] = ()) -> Ceilings | None:
        """What a device reaches, or None."""
        return super().ceilings(device, again, groups) if device == "cuda" or self.light else None

    def lint(self, plan: Plan) -> list[str]:
        """What a linter finds wrong with the judge of a target, at its smallest sizes. Raises `ChildError`."""
        target, described = plan.selection.target, plan.described
        child = self.spawn("linter", f"lint-{target.name}-{plan.device}")
        try:
            outcomes = child.ask(
                "lint",
                timeout=LINT_TIMEOUT_S,
                target={"name": target.name, "module": target.module},
                device=asdict(self.options.devices[plan.device]),
                params=described.presets["smoke"],
                listed={"goal": described.goal, "devices": sorted({one.device for one in described.implementations})},
            )
        finally:
            child.kill()
        problems = [one for one in outcomes if one["verdict"] == "problem" and one["test"].startswith(JUDGING)]
        return [f"{one['test']}: {one['found']}" for one in problems]

    def in_one_process(self, plan: Plan, name: str, log: Path) -> tuple[str | None, float, float]:
        """What a harness of one process says of an implementation: what is wrong with its output, and two medians.

        They are those of the baseline and of the implementation, in seconds. Raises `ChildError`.
        """
        target = plan.selection.target
        child = self._server.spawn("one_process", name, log)
        try:
            answer = child.ask(
                "measure",
                timeout=ONE_PROCESS_TIMEOUT_S,
                target={"name": target.name, "module": target.module},
                device=plan.device,
                params=plan.params,
                implementation=name,
            )
        finally:
            child.kill()
        if answer["wrong"]:
            return str(answer["wrong"]), 0.0, 0.0
        return None, float(answer["baseline_s"]), float(answer["variant_s"])


class NotTriedError(Exception):
    """A case could not be tried."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@frozen
class Run:
    """What a run said of the baseline and of the case's implementation. crowd: how many it was shared with."""

    baseline: Row
    row: Row
    crowd: int = 1

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

    @property
    def has_word(self) -> bool:
        """Whether the implementation wrote that it has what it was after."""
        return any(WORD in line for line in self.row.log)

    def tells_of(self, issue: str) -> bool:
        """Whether an issue was found, in the implementation or in the baseline."""
        return any(one.issue == issue for row in (self.row, self.baseline) for one in row.findings)


# Module, device, tier, guards that are off, whether with ceilings, and how many times as long.
_Conditions = tuple[str, str, str, frozenset[str], bool, float]


@define(eq=False)
class Trials:
    """Runs of cases, in one planner.

    logs: the folder for what processes print. device: the only one to use; None takes every one that is here. checks,
    severities: of plugins, as in `Options`.
    """

    planner: ProofPlanner
    logs: Path
    device: str | None
    reporter: Reporter
    checks: tuple[Check, ...] = ()
    severities: Mapping[str, Severity] = field(factory=dict)
    _plans: dict[tuple[str, str, str], Plan | NotTriedError] = field(factory=dict, init=False)
    _made: dict[tuple[_Conditions, frozenset[str]], dict[str, Row]] = field(factory=dict, init=False)
    _numbers: Iterator[int] = field(factory=count, init=False)

    # --- before a run

    def plan(self, case: Case, issue: Issue) -> Plan:
        """The run of a case's implementation beside the baseline. Raises `NotTriedError` where there can be none."""
        if lack := self._lacking(issue, case):
            raise NotTriedError(Outcome.NOT_OBSERVABLE, lack)
        key = case.module, case.device, case.implementation if case.candidate else ""
        if key not in self._plans:
            self._plans[key] = self._planned(case)
        plan = self._plans[key]
        if isinstance(plan, NotTriedError):
            raise plan
        if case.candidate:
            return plan
        names = [one.name for one in plan.described.on(case.device) if one.role == "variant"]
        if case.implementation not in names:
            there = f"it has {', '.join(names)}" if names else "it has none"
            raise NotTriedError(
                Outcome.ERROR, f"{case.module} has no variant {case.implementation!r} for {case.device}; {there}"
            )
        return plan

    def _planned(self, case: Case) -> Plan | NotTriedError:
        target = InstalledTarget(f"redteam.{case.module.rpartition('.')[2]}", case.module, devices=(case.device,))
        try:
            self.planner.options = self._options(case, tier="quick", budget_s=0.0, off=frozenset())
            plans, skipped = self.planner.plan([Selection(target, frozenset())])
        except UsageError as error:
            return NotTriedError(Outcome.ERROR, str(error))
        return plans[0] if plans else _not_tried(skipped[0])

    def _options(self, case: Case, *, tier: str, budget_s: float, off: frozenset[str]) -> Options:
        source = check_candidate(file_of(case), AIPERF) if case.candidate else None
        return Options(
            device=case.device,
            tier=tier,
            budget_s=budget_s,
            energy=False,
            off=off,
            candidate=source,
            checks=self.checks,
            severities=self.severities,
        )

    def _lacking(self, issue: Issue, case: Case) -> str:
        """What this machine lacks for a case; empty where it has all."""
        needs = dict.fromkeys((*(("cuda",) if case.device == "cuda" else ()), *issue.needs, *case.needs))
        left_out = self.device not in (None, case.device) or (self.device == "cpu" and "cuda" in needs)
        if left_out:
            return f"left out by --device {self.device}"
        unmet = [need for need in needs if not self._offers(need)]
        return f"needs {', '.join(unmet)}" if unmet else ""

    def _offers(self, need: str) -> bool:
        """Whether this machine offers what an issue can need, see `validity.issues.NEEDS`, or a case beyond that."""
        offers: dict[str, Callable[[], bool]] = {
            "cuda": lambda: self.planner.hardware.gpus > 0,
            "cupti": lambda: self.planner.hardware.gpus > 0,
            "nvml": lambda: bool(nvidia().driver),
            "compiler": lambda: lacking("compiler", self.planner.hardware) is None,
            "linux": lambda: sys.platform == "linux",
            "bare_metal": lambda: not hypervisor(),
            "processors>=2": lambda: len(os.sched_getaffinity(0)) >= 2,
            "numa>=2": lambda: len([*Path("/sys/devices/system/node").glob("node[0-9]*")]) >= 2,
            "swap": lambda: psutil.swap_memory().total > 0,
            "traceable": _traceable,
        }
        if need in offers:
            return offers[need]()
        number, _, least = need.partition(">=")
        # On processors any number of ranks can be had.
        return number == "ranks" or (number == "gpus" and self.planner.hardware.gpus >= int(least))

    # --- with runs

    def run(
        self,
        case: Case,
        plan: Plan,
        tier: str,
        off: frozenset[str],
        *,
        beside: Iterable[Case] = (),
        light: bool = False,
        longer: float = 1.0,
        fresh: bool = False,
    ) -> Run:
        """Run a case beside its baseline, and beside those others whose run it is too. Raises `NotTriedError`.

        A run that was made before says the same again, unless it is to be `fresh`.
        """
        names = {one.implementation for one in (*beside, case) if not (one.alone or one.candidate)}
        names = {case.implementation} if case.alone or case.candidate else names
        key = (case.module, case.device, tier, off, light, longer), frozenset(names)
        if fresh or key not in self._made:
            # All get the time that one alone would get.
            budget_s = BUDGET_S[tier] * longer * (1 + len(names)) / 2
            self._made[key] = self._rows(case, plan, frozenset(names), tier, off, budget_s, light)
        rows = self._made[key]
        run = Run(next(iter(rows.values())), rows[CANDIDATE if case.candidate else case.implementation], len(names))
        for row in (run.baseline, run.row):
            if row.verdict is Verdict.SKIPPED:
                raise NotTriedError(Outcome.NOT_OBSERVABLE, row.reason or "skipped")
        if run.baseline.verdict is not Verdict.MEASURED and not run.tells_of(case.issue):
            said = f"the baseline was {run.baseline.verdict}"
            raise NotTriedError(Outcome.ERROR, f"{said}: {run.baseline.reason}" if run.baseline.reason else said)
        return run

    def _rows(
        self,
        case: Case,
        plan: Plan,
        names: frozenset[str],
        tier: str,
        off: frozenset[str],
        budget_s: float,
        light: bool,
    ) -> dict[str, Row]:
        """The rows of a run by their names, the baseline's first."""
        folder = self._folder()
        self.planner.light = light
        self.planner.options = self._options(case, tier=tier, budget_s=budget_s, off=off)
        wanted = frozenset() if case.candidate else names
        plan = evolve(plan, selection=evolve(plan.selection, implementations=wanted))
        with no_process_left():
            result = self.planner.run_whole(plan, lambda _, name: folder / f"{name}.log", self.reporter)
        if isinstance(result, SkippedTarget):
            raise _not_tried(result)
        return {row.name: row for row in result.rows}

    def one_process(self, case: Case, plan: Plan) -> Run:
        """A run of a case in a harness of one process."""
        self.reporter.phase("all in one process")
        log = self._folder() / f"{case.implementation}.log"
        here = next(one for one in plan.described.on(case.device) if one.role == "baseline")
        baseline = Row(here.name, "baseline", case.device, Verdict.MEASURED)
        row = Row(case.implementation, "variant", case.device, Verdict.FAILED)
        try:
            with no_process_left():
                wrong, baseline_s, variant_s = self.planner.in_one_process(plan, case.implementation, log)
        except ChildError as error:
            return Run(baseline, evolve(row, reason=str(error)))
        if wrong:
            return Run(baseline, evolve(row, verdict=Verdict.INVALID, reason=wrong))
        ratio = baseline_s / variant_s
        verdict = Verdict.FASTER if ratio > WORTH else Verdict.SLOWER if ratio < 1 / WORTH else Verdict.SAME
        return Run(baseline, evolve(row, verdict=verdict, speedup=Estimate(ratio, ratio, ratio)))

    def _folder(self) -> Path:
        """A fresh folder for the logs of a run, with what some attacks look for beside them."""
        folder = self.logs / f"run-{next(self._numbers)}"
        folder.mkdir(parents=True)
        for name, text in BAITS.items():
            (folder / name).write_text(text)
        return folder


def file_of(case: Case) -> Path:
    """The file of a candidate."""
    spec = importlib.util.find_spec(case.module)
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    return folder / "candidates" / f"{case.implementation}.py"


def _traceable() -> bool:
    """Whether a process may read the memory of another one of its user."""
    if os.geteuid() == 0:
        return True
    try:
        return _PTRACE_SCOPE.read_text().strip() == "0"
    except OSError:
        return True


def _not_tried(skipped: SkippedTarget) -> NotTriedError:
    outcome = Outcome.ERROR if skipped.verdict is Verdict.FAILED else Outcome.NOT_OBSERVABLE
    return NotTriedError(outcome, skipped.reason)


@contextlib.contextmanager
def no_process_left() -> Iterator[None]:
    """End what a run has started and left behind: an attack's helpers would take time from the next one."""
    here = psutil.Process()
    before = set(here.children(recursive=True))
    try:
        yield
    finally:
        # What a dying process started is in no list until it has another parent, so the list is read again.
        for _ in range(_LISTINGS):
            left = [one for one in set(here.children(recursive=True)) - before if _runs(one)]
            if not left:
                break
            for one in left:
                with contextlib.suppress(psutil.Error):
                    one.kill()
            time.sleep(_BETWEEN_LISTINGS_S)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
