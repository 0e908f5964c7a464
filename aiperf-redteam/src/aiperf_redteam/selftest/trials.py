"""Runs of cases: in the harness itself with some guards off, or in a harness of one process."""

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from pathlib import Path

import psutil
from attrs import define, evolve, field, frozen

from aiperf_core.candidate_format import AIPERF
from aiperf_core.cli.lint import ask
from aiperf_core.devices.host import hypervisor
from aiperf_core.devices.probe import nvidia
from aiperf_core.errors import UsageError
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.processes.child import RAN_OUT_OF_MEMORY, ChildError
from aiperf_core.harness.run.options import AtEnd, Known, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.setup import CANDIDATE, Plan, Reporter
from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.proofs.outcomes import Outcome
from aiperf_core.requirements import lacking
from aiperf_core.results.models import Row, SkippedTarget, Verdict
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_core.validity.cases import Case
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue
from aiperf_redteam.selftest import kept_cache
from aiperf_redteam.selftest.other_work import OtherWork
from aiperf_redteam.selftest.runs import BUDGET_S, ONE_ROUND, NotTriedError, Run, RunKey

ONE_PROCESS_TIMEOUT_S = 300.0
ONE_PROCESS = "aiperf_redteam.selftest.one_process"
# What a linter's problem must be about for a judge to be worthless.
JUDGING = ("workload.", "reference.", "judge.", "budget.")
# Of one process, a difference by less may be noise.
WORTH = 1.25
# Lie beside the logs of a run: a file with an answer, and one of the harness's sources, for those who look for them.
BAITS = {"golden.bin": "the expected output", "reference.py": "def reference(x): ...\n"}
# Processes that a run left behind are looked for until none is found, at most this often.
_LISTINGS, _BETWEEN_LISTINGS_S = 50, 0.01
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


@frozen(kw_only=True)
class ProofOptions(Options):
    """The options of a run of cases.

    one_round: whether there is one round of fresh processes, whatever the tier says.
    """

    one_round: bool = False

    @property
    def rounds(self) -> int:
        """Rounds of fresh processes."""
        return 1 if self.one_round else super().rounds


class ProofPlanner(Planner):
    """A planner that knows a processor's ceilings only where `light` is true: measuring them takes seconds.

    Those of a GPU hold what its events cost, which every run needs; they are kept on disk.
    """

    light: bool = False

    def ceilings(self, device: str, again: bool = False, groups: Collection[str] = ()) -> Ceilings | None:
        """Peak rates of a device, or None."""
        return super().ceilings(device, again, groups) if device == "cuda" or self.light else None

    def lint(self, plan: Plan) -> list[str]:
        """The problems of a target's judge at its smallest sizes, by the linter. Raises `ChildError`."""
        described = plan.described
        listed = {"goal": described.goal, "devices": sorted({code.device for code in described.implementations})}
        outcomes = ask(self, plan, "lint", params=described.presets["smoke"], listed=listed)
        problems = [test for test in outcomes if test["verdict"] == "problem" and test["test"].startswith(JUDGING)]
        return [f"{test['test']}: {test['found']}" for test in problems]

    def in_one_process(self, plan: Plan, name: str, log: Path) -> tuple[str | None, float]:
        """An implementation in a harness of one process: the fault of its output, else its speedup.

        Raises `ChildError`.
        """
        child = self._server.spawn(ONE_PROCESS, name, log)
        try:
            answer = child.ask(
                "measure",
                timeout=ONE_PROCESS_TIMEOUT_S,
                target={"name": plan.selection.target.name, "module": plan.selection.target.module},
                device=plan.device,
                params=plan.params,
                implementation=name,
            )
        finally:
            child.kill()
        if answer["wrong"]:
            return str(answer["wrong"]), 0.0
        return None, answer["baseline_s"] / answer["variant_s"]


@frozen
class Made:
    """A run that was made: its rows by their names, the baseline's first.

    beside, load: as in `Run`.
    unclaimed_s: how long it took, until a case has used it.
    """

    rows: dict[str, Row]
    beside: bool = False
    unclaimed_s: float = 0.0
    load: float | None = None


@define(eq=False)
class Trials:
    """Runs of cases, in one planner.

    logs: the folder for what processes print. device: the only one to use; None takes every one that is here. issues:
    the registry by id, that of plugins included. checks: of plugins.
    """

    planner: ProofPlanner
    logs: Path
    device: str | None
    issues: Mapping[str, Issue]
    reporter: Reporter
    checks: tuple[Check, ...] = ()
    _plans: dict[tuple[str, str, str], Plan | NotTriedError] = field(factory=dict, init=False)
    _made: dict[RunKey, Made] = field(factory=dict, init=False)
    _claimed_s: float = field(default=0.0, init=False)
    _numbers: Iterator[int] = field(factory=count, init=False)

    # --- before a run

    def plan(self, case: Case) -> Plan:
        """The run of a case's implementation beside the baseline. Raises `NotTriedError` where there can be none."""
        if lack := self.lacking(case):
            raise NotTriedError(Outcome.NOT_OBSERVABLE, lack)
        plan = self._planned(case)
        names = [code.name for code in plan.described.on(case.device) if code.role == "variant"]
        if not case.candidate and case.implementation not in names:
            there = f"it has {', '.join(names)}" if names else "it has none"
            raise NotTriedError(
                Outcome.ERROR, f"{case.module} has no variant {case.implementation!r} for {case.device}; {there}"
            )
        return plan

    def _planned(self, case: Case) -> Plan:
        """The plan of a case's module, which is described once."""
        key = case.module, case.device, case.implementation if case.candidate else ""
        if key not in self._plans:
            self._plans[key] = self._plan_anew(case)
        plan = self._plans[key]
        if isinstance(plan, NotTriedError):
            raise plan
        return plan

    def _plan_anew(self, case: Case) -> Plan | NotTriedError:
        target = InstalledTarget(f"redteam.{case.module.rpartition('.')[2]}", case.module, devices=(case.device,))
        try:
            self.planner.options = self._options(case, tier="quick", budget_s=0.0, off=frozenset())
            plans, skipped = self.planner.plan([Selection(target, frozenset())])
        except UsageError as error:
            return NotTriedError(Outcome.ERROR, str(error))
        return plans[0] if plans else _not_tried(skipped[0])

    def _options(self, case: Case, *, tier: str, budget_s: float, off: frozenset[str]) -> ProofOptions:
        source = check_candidate(file_of(case), AIPERF) if case.candidate else None
        return ProofOptions(
            device=case.device,
            tier="standard" if tier == ONE_ROUND else tier,
            one_round=tier == ONE_ROUND,
            budget_s=budget_s,
            at_end=AtEnd(energy=False),
            off=off,
            candidate=source,
            known=Known(checks=self.checks, severities={issue.id: issue.severity for issue in self.issues.values()}),
        )

    def lacking(self, case: Case) -> str:
        """The parts that this machine lacks for a case; empty where it has all."""
        of_device = ("cuda",) if case.device == "cuda" else ()
        needs = dict.fromkeys((*of_device, *self.issues[case.issue].needs, *case.needs))
        left_out = self.device not in (None, case.device) or (self.device == "cpu" and "cuda" in needs)
        if left_out:
            return f"left out by --device {self.device}"
        unmet = [need for need in needs if need != kept_cache.NEED and not self._offers(need)]
        if unmet:
            return f"needs {', '.join(unmet)}"
        return kept_cache.lacking() if kept_cache.NEED in needs else ""

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

    def run(self, case: Case, key: RunKey, *, fresh: bool = False) -> Run:
        """The answer of a run to a case. Raises `NotTriedError`.

        A run that was made before says the same again, unless it is to be `fresh`.
        """
        if fresh or key not in self._made:
            others = OtherWork()
            rows = self._rows(case, key)
            self._made[key] = Made(rows, load=others.share())
        made = self._made[key]
        self._claimed_s += made.unclaimed_s
        self._made[key] = evolve(made, unclaimed_s=0.0)
        baseline = next(iter(made.rows.values()))
        row = made.rows[CANDIDATE if key.candidate else case.implementation]
        run = Run(baseline, row, crowd=len(key.names), beside=made.beside, load=made.load)
        for row in (run.baseline, run.row):
            if row.verdict is Verdict.SKIPPED:
                raise NotTriedError(Outcome.NOT_OBSERVABLE, row.reason or "skipped")
        unmeasured = run.baseline.verdict is not Verdict.MEASURED and not run.tells_of(case.issue)
        if run.beside and (unmeasured or RAN_OUT_OF_MEMORY in (run.row.reason or "")):
            return self.run(case, key, fresh=True)  # by itself
        if unmeasured:
            said = [run.disturbed, f"the baseline was {run.baseline.verdict}", run.baseline.reason]
            outcome = Outcome.UNDECIDED if run.disturbed else Outcome.ERROR
            raise NotTriedError(outcome, ": ".join(filter(None, said)))
        return run

    def make(self, case: Case, key: RunKey) -> dict[str, Row]:
        """The rows of a run by their names, the baseline's first. Raises `NotTriedError`."""
        self.plan(case)
        return self._rows(case, key)

    def keep(self, key: RunKey, rows: dict[str, Row], seconds: float) -> None:
        """Keep a run that was made beside another one."""
        self._made[key] = Made(rows, beside=True, unclaimed_s=seconds)

    def claimed_s(self) -> float:
        """How long the runs took that were made ahead and have been used since the last call."""
        claimed, self._claimed_s = self._claimed_s, 0.0
        return claimed

    def _rows(self, case: Case, key: RunKey) -> dict[str, Row]:
        plan = self._planned(case)
        if key.one_process:
            return self._rows_of_one_process(case, plan)
        folder = self._folder()
        # All get the time that one alone would get.
        budget_s = BUDGET_S[key.tier] * key.longer * (1 + len(key.names)) / 2
        self.planner.light = key.light
        self.planner.options = self._options(case, tier=key.tier, budget_s=budget_s, off=key.off)
        wanted = frozenset[str]() if key.candidate else key.names
        plan = evolve(plan, selection=evolve(plan.selection, implementations=wanted))
        with no_process_left():
            result = self.planner.run_whole(plan, lambda _, name: folder / f"{name}.log", self.reporter)
        if isinstance(result, SkippedTarget):
            raise _not_tried(result)
        return {row.name: row for row in result.rows}

    def _rows_of_one_process(self, case: Case, plan: Plan) -> dict[str, Row]:
        self.reporter.phase("all in one process")
        log = self._folder() / f"{case.implementation}.log"
        here = next(code for code in plan.described.on(case.device) if code.role == "baseline")
        baseline = Row(here.name, "baseline", case.device, Verdict.MEASURED)
        row = Row(case.implementation, "variant", case.device, Verdict.FAILED)
        try:
            with no_process_left():
                wrong, speedup = self.planner.in_one_process(plan, case.implementation, log)
        except ChildError as error:
            row = evolve(row, reason=str(error))
        else:
            verdict = Verdict.FASTER if speedup > WORTH else Verdict.SLOWER if speedup < 1 / WORTH else Verdict.SAME
            measured = {"verdict": verdict, "speedup": Estimate(speedup, speedup, speedup)}
            row = evolve(row, **({"verdict": Verdict.INVALID, "reason": wrong} if wrong else measured))
        return {baseline.name: baseline, row.name: row}

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
            left = [process for process in set(here.children(recursive=True)) - before if _runs(process)]
            if not left:
                break
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(_BETWEEN_LISTINGS_S)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
