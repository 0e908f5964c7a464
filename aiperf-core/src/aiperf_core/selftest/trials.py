"""Runs of cases: in the harness itself with some guards off, or in a harness of one process."""

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
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.processes.child import RAN_OUT_OF_MEMORY, ChildError
from aiperf_core.harness.run.options import AtEnd, Known, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.setup import CANDIDATE, Plan, Reporter
from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.requirements import lacking
from aiperf_core.results.models import Row, SkippedTarget, Verdict
from aiperf_core.selftest import kept_cache
from aiperf_core.selftest.other_work import OtherWork
from aiperf_core.selftest.outcomes import Outcome
from aiperf_core.selftest.runs import Made, NotTriedError, Run, RunKey
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_core.validity.cases import Case
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Issue, Severity

# A tier of the selftest: the standard one with its controls, of one round of fresh processes.
ONE_ROUND = "one-round"
# Sampling time of a run of one case by its tier, in seconds: enough for a gain that is worth an attack.
BUDGET_S = {"quick": 0.1, ONE_ROUND: 0.3, "standard": 0.6}
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
                device=asdict(self.options.known.devices[plan.device]),
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


@define(eq=False)
class Trials:
    """Runs of cases, in one planner.

    logs: the folder for what processes print. device: the only one to use; None takes every one that is here. checks,
    severities: of plugins, as in `Known`.
    """

    planner: ProofPlanner
    logs: Path
    device: str | None
    reporter: Reporter
    checks: tuple[Check, ...] = ()
    severities: Mapping[str, Severity] = field(factory=dict)
    _plans: dict[tuple[str, str, str], Plan | NotTriedError] = field(factory=dict, init=False)
    _made: dict[RunKey, Made] = field(factory=dict, init=False)
    _claimed_s: float = field(default=0.0, init=False)
    _numbers: Iterator[int] = field(factory=count, init=False)

    # --- before a run

    def plan(self, case: Case, issue: Issue) -> Plan:
        """The run of a case's implementation beside the baseline. Raises `NotTriedError` where there can be none."""
        if lack := self.lacking(issue, case):
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
            known=Known(checks=self.checks, severities=self.severities),
        )

    def lacking(self, issue: Issue, case: Case) -> str:
        """What this machine lacks for a case; empty where it has all."""
        needs = dict.fromkeys((*(("cuda",) if case.device == "cuda" else ()), *issue.needs, *case.needs))
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

    def key(
        self,
        case: Case,
        tier: str,
        off: frozenset[str],
        *,
        beside: Iterable[Case] = (),
        light: bool = False,
        longer: float = 1.0,
    ) -> RunKey:
        """The run of a case, and of those others whose run it is too."""
        apart = case.alone or case.candidate
        names = {one.implementation for one in beside if not (apart or one.alone or one.candidate)}
        return RunKey(
            module=case.module,
            device=case.device,
            names=frozenset({case.implementation, *names}),
            candidate=case.candidate,
            tier=tier,
            off=off,
            light=light,
            longer=longer,
        )

    @staticmethod
    def key_of_one_process(case: Case) -> RunKey:
        """The run of a case in a harness of one process."""
        names = frozenset({case.implementation})
        return RunKey(module=case.module, device=case.device, names=names, one_process=True)

    def run(self, case: Case, plan: Plan, key: RunKey, *, fresh: bool = False) -> Run:
        """What a run says of a case. Raises `NotTriedError`.

        A run that was made before says the same again, unless it is to be `fresh`.
        """
        if fresh or key not in self._made:
            others = OtherWork()
            rows = self._rows(case, plan, key)
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
            return self.run(case, plan, key, fresh=True)  # by itself
        if unmeasured:
            said = [run.disturbed, f"the baseline was {run.baseline.verdict}", run.baseline.reason]
            outcome = Outcome.UNDECIDED if run.disturbed else Outcome.ERROR
            raise NotTriedError(outcome, ": ".join(filter(None, said)))
        return run

    def make(self, case: Case, issue: Issue, key: RunKey) -> dict[str, Row]:
        """The rows of a run by their names, the baseline's first. Raises `NotTriedError`."""
        return self._rows(case, self.plan(case, issue), key)

    def keep(self, key: RunKey, rows: dict[str, Row], seconds: float) -> None:
        """Keep a run that was made beside another one."""
        self._made[key] = Made(rows, beside=True, unclaimed_s=seconds)

    def claimed_s(self) -> float:
        """How long the runs took that were made ahead and have been used since the last call."""
        claimed, self._claimed_s = self._claimed_s, 0.0
        return claimed

    def _rows(self, case: Case, plan: Plan, key: RunKey) -> dict[str, Row]:
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
        here = next(one for one in plan.described.on(case.device) if one.role == "baseline")
        baseline = Row(here.name, "baseline", case.device, Verdict.MEASURED)
        row = Row(case.implementation, "variant", case.device, Verdict.FAILED)
        try:
            with no_process_left():
                wrong, baseline_s, variant_s = self.planner.in_one_process(plan, case.implementation, log)
        except ChildError as error:
            row = evolve(row, reason=str(error))
        else:
            if wrong:
                row = evolve(row, verdict=Verdict.INVALID, reason=wrong)
            else:
                ratio = baseline_s / variant_s
                verdict = Verdict.FASTER if ratio > WORTH else Verdict.SLOWER if ratio < 1 / WORTH else Verdict.SAME
                row = evolve(row, verdict=verdict, speedup=Estimate(ratio, ratio, ratio))
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
