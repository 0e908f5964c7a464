"""The planner: decides device and sizes of each target of a run, and measures the targets."""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import cattrs
from attrs import define, evolve, field

from aiperf_core.candidate_format import reference_of
from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.devices.device import CPU, CUDA, DeviceKind
from aiperf_core.errors import AiperfError, SkipError, UsageError
from aiperf_core.executor import HERE, TORCHRUN
from aiperf_core.formats.candidate import check_inputs
from aiperf_core.harness.processes.child import Child, ChildError
from aiperf_core.harness.run.machine import IMPORT_TIMEOUT_S, Machine
from aiperf_core.harness.run.progress import Store, TimeLeft, key_of
from aiperf_core.harness.run.setup import Plan, Reporter, Setup
from aiperf_core.harness.run.target_run import run_target
from aiperf_core.harness.run.workers import NextJudge
from aiperf_core.requirements import lacking
from aiperf_core.results.models import MOST_ROWS, SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import WORLD_SIZE, InstalledTarget, Selection


class RunReporter(Reporter, Protocol):
    """Gets the progress of a run."""

    def run_started(self, targets: int, seconds: float, unknown: int) -> None:
        """A run of some targets begins, with an estimate of its time.

        unknown: the number of targets without an earlier run; of these only the sampling budgets are counted.
        """

    def target_started(self, name: str, index: int, total: int, later_s: float = 0.0) -> None:
        """A target begins; `index` counts from 1. `later_s` is the estimate for the targets after it."""

    def target_finished(self, result: TargetResult | SkippedTarget) -> None:
        """A target has ended."""


def _described(describer: Child, target: InstalledTarget) -> Described | SkippedTarget:
    """The declarations of a target, or why it cannot be used."""
    ref = {"name": target.name, "module": target.module}
    try:
        return cattrs.structure(describer.ask("describe", timeout=IMPORT_TIMEOUT_S, target=ref), Described)
    except ChildError as error:
        text = str(error)
        named = target.name in text or (error.kind == "mistake" and reference_of(target.module) is not None)
        text = text if named else f"{target.name!r} cannot be used: importing it {text}"
        return SkippedTarget(target.name, Verdict.FAILED, text)


@define(eq=False)
class Planner(Machine):
    """A machine that plans and measures the targets of a run.

    next_judge: the judge that is started ahead of the next run, where the planner stays warm.
    """

    next_judge: NextJudge | None = field(default=None, init=False)
    _durations: Store = field(factory=Store, init=False)

    # --- planning, before anything is written

    def plan(self, selections: Iterable[Selection]) -> tuple[list[Plan], list[SkippedTarget]]:
        """Decide device and sizes of each target; return the plans, and the targets that cannot be run with the reason.

        Raises `UsageError` for options that a target does not take.
        """
        self._start_probe(CUDA.name)
        plans, skipped = [], []
        describer: Child | None = None
        told: dict[str, Described | SkippedTarget] = {}  # a sweep has many points of one target
        for selection in selections:
            target = selection.target
            if describer is None or describer.ended:
                describer = self.spawn("describer", "describer")
            described = told.get(target.name) or told.setdefault(target.name, _described(describer, target))
            if isinstance(described, SkippedTarget):
                skipped.append(evolve(described, target=selection.name))
                continue
            self._check_candidate(describer, {"name": target.name, "module": target.module})
            plan = self._plan(selection, described)
            plans.append(plan) if isinstance(plan, Plan) else skipped.append(plan)
        if describer is not None:
            describer.kill()
        return plans, skipped

    def describe(self, targets: Iterable[InstalledTarget]) -> Iterator[Described | SkippedTarget]:
        """The declarations of each target, or why it cannot be used. The benchmarks are imported in another process."""
        describer: Child | None = None
        for target in targets:
            if describer is None or describer.ended:
                describer = self.spawn("describer", "describer")
            yield _described(describer, target)
        if describer is not None:
            describer.kill()

    def _check_candidate(self, describer: Child, target: dict[str, str]) -> None:
        """Raise `UsageError` where the candidate cannot be called with the target's inputs."""
        if self.options.candidate is None:
            return
        try:
            names = describer.ask("inputs", timeout=IMPORT_TIMEOUT_S, target=target)
        except ChildError as error:
            if error.kind == "mistake" and reference_of(target["module"]):
                raise UsageError(str(error)) from None
            raise AiperfError(f"{target['name']!r} cannot be used: {error}") from None
        check_inputs(self.options.candidate, names["inputs"], names["sizes"])

    def _plan(self, selection: Selection, described: Described) -> Plan | SkippedTarget:
        name = selection.name
        device = self._device_for(described)
        known = {one.name for one in described.implementations}
        unknown = sorted(selection.implementations - known)
        if unknown:
            raise UsageError(
                f"{name!r} has no implementation named {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(sorted(known))}."
            )
        if len(known) > MOST_ROWS:
            raise UsageError(
                f"{name!r} has {len(known)} implementations; a result holds at most {MOST_ROWS}. Split the target."
            )
        if not described.on(device):
            return SkippedTarget(name, Verdict.SKIPPED, self._without(device, described))
        kind = self.kind(device)
        usable = len(os.sched_getaffinity(0))
        if kind.on_host and (described.threads or 0) > usable:
            reason = f"needs {described.threads} processors ({usable} are usable here)"
            return SkippedTarget(name, Verdict.SKIPPED, reason)
        names = [one.name for one in described.on(device)]
        if self.options.overrides.baseline not in (None, *names):
            raise UsageError(
                f"{name!r} has no implementation named {self.options.overrides.baseline!r} on {device}; it has "
                f"{', '.join(names)}."
            )
        size = self._size_for(name, described, device)
        params = {**described.presets[size], **self._overrides(selection, described.presets[size])}
        if WORLD_SIZE in params and not kind.on_host:
            too_many = self._no_ranks(device, kind, params[WORLD_SIZE])
            if too_many:
                return SkippedTarget(name, Verdict.SKIPPED, too_many)
        if self.options.candidate is not None:
            self._check_can_be_judged(name, described, device, params)
        executor = self.options.executor or (TORCHRUN if WORLD_SIZE in params else HERE).name
        unfit = self._unfit(executor, params)
        if unfit:
            return SkippedTarget(name, Verdict.SKIPPED, unfit)
        return Plan(selection, described, device, size, params, executor)

    def _check_can_be_judged(self, name: str, described: Described, device: str, params: dict[str, float]) -> None:
        """Raise `UsageError` where no candidate can be judged on a device, or for a target."""
        if not self.kind(device).confines:
            raise UsageError(
                f"Untrusted code cannot run on {device!r}, which has no sandbox. "
                "Use a device with a sandbox: --device cpu or --device cuda"
            )
        if WORLD_SIZE in params:
            reason = f"is a workload of {params[WORLD_SIZE]:g} ranks; a candidate is one process"
        elif described.folder or described.files or described.deferred:
            reason = "uses files, or continues after the call returns; candidates support neither"
        elif described.simulated:
            reason = "is simulated; the virtual time that a candidate returns is a claim"
        elif described.served:
            reason = "serves requests one by one; a candidate receives all inputs at once"
        else:
            return
        raise UsageError(f"{name!r} {reason}. Choose another target: aiperf list")

    def _unfit(self, executor: str, params: dict[str, float]) -> str | None:
        """Why an executor cannot start a target's workers; None where it can. Raises `UsageError` for a candidate."""
        kind = self.executor(executor)
        if self.options.candidate is not None and not kind.confines:
            raise UsageError(
                f"Untrusted code cannot run under the executor {executor!r}, which has no sandbox. "
                "Omit --executor to run it on this machine."
            )
        if WORLD_SIZE in params and not kind.takes_ranks:
            return (
                f"is a workload of {params[WORLD_SIZE]:g} ranks; the executor {executor!r} starts one process at a time"
            )
        if WORLD_SIZE not in params and not kind.takes_one:
            return f"is a workload of one process; the executor {executor!r} starts ranks"
        return None

    def _device_for(self, described: Described) -> str:
        """The requested device; else a GPU, a plugin's or the processor, if it is here and has implementations."""
        self.require(self.options.device)
        if self.options.device:
            return self.options.device
        useful = {one.device for one in described.implementations}
        others = [name for name in self.options.known.devices if name not in (CUDA.name, CPU.name)]
        usable = (name for name in (CUDA.name, *others) if name in useful and self.absent(name) is None)
        return next(usable, CPU.name)

    def _without(self, device: str, described: Described) -> str:
        """Why a target is not run: it has nothing for the device, and its own devices are not here."""
        there = sorted({one.device for one in described.implementations})
        reason = f"has no implementation for {device}; it runs on {', '.join(there)}"
        absent = {name: self._why_not(name) for name in there} if self.options.device is None else {}
        reasons = [f"{name}: {why}" for name, why in absent.items() if why and name != CUDA.name]
        return f"{reason} ({'; '.join(reasons)})" if reasons else reason

    def _why_not(self, device: str) -> str | None:
        if device not in self.options.known.devices:
            return f"no plugin provides it; known are {', '.join(sorted(self.options.known.devices))}"
        return self.absent(device)

    def _no_ranks(self, device: str, kind: DeviceKind, world_size: float) -> str | None:
        """Why a workload cannot have `world_size` ranks on a device; None where it can."""
        if not kind.ranks:
            return f"is a workload of {world_size:g} ranks; the device {device!r} does not support ranks"
        count, what = self.count(device), "GPUs" if device == CUDA.name else repr(device)
        if world_size <= count:
            return None
        return f"needs {world_size:g} {what}, one for each rank ({count} here); --set world_size=2 asks for fewer"

    def _size_for(self, name: str, described: Described, device: str) -> str:
        size = self.options.size or (device if device in described.presets else "smoke")
        if size not in described.presets:
            raise UsageError(f"{name!r} has no size {size!r}; it has {', '.join(described.presets)}.")
        return size

    def _overrides(self, selection: Selection, preset: dict[str, float]) -> dict[str, float]:
        name, given = selection.target.name, {**self.options.params, **dict(selection.point)}
        unknown = sorted(set(given) - set(preset))
        if unknown:
            raise UsageError(
                f"{name!r} has no size parameter {', '.join(map(repr, unknown))}; it has {', '.join(sorted(preset))}."
            )
        for key, value in given.items():
            if isinstance(preset[key], int) and value != int(value):
                raise UsageError(f"{name!r} takes a whole number for {key}; --set gave {value:g}.")
        return {key: type(preset[key])(value) for key, value in given.items()}

    # --- how long it takes

    def estimate_s(self, plan: Plan) -> tuple[float, bool]:
        """About how long a target takes, and whether an earlier run says so. Else its sampling budget is counted."""
        before = self._durations.of(self._key(plan))
        return TimeLeft(self.options.rounds, self.options.round_budget_s, 0, before).whole_s, bool(before)

    def implementations(self, plan: Plan) -> list[tuple[DescribedImplementation, str | None]]:
        """The implementations of a plan, each with the requirement that this machine lacks, if any."""
        hardware = self.hardware_of(plan.device)
        chosen = plan.implementations(self.options)
        return [(one, next(filter(None, (lacking(text, hardware) for text in one.requires)), None)) for one in chosen]

    def _key(self, plan: Plan) -> str:
        """The key under which durations of such a run are stored."""
        names = sorted(plan.selection.implementations)
        candidate = self.options.candidate is not None
        return key_of(
            plan.name, plan.device, plan.size, plan.params, self.options.tier, plan.executor, names, candidate
        )

    # --- running

    def run(self, plan: Plan, log_path: Callable[[str, str], Path], reporter: Reporter) -> TargetResult | SkippedTarget:
        """Run a target. An error of its workload becomes a `SkippedTarget` with the reason."""
        key = self._key(plan)
        if self._ceilings.get(plan.device) is None:
            reporter.phase("setup: measure ceilings")
            self.ceilings(plan.device)
        try:
            setup = Setup(
                plan=plan,
                options=self.options,
                device=self.options.known.devices[plan.device],
                kind=self.kind(plan.device),
                hardware=self.hardware_of(plan.device),
                ceilings=partial(self.ceilings, plan.device),
                left_out=self.left_out(plan.device) if self.options.candidate else (),
                flush_bound=self.flush_bound(plan.device) if plan.described.cache == "cold" else None,
                server=self._server,
                executor=self.executor(plan.executor),
                log_path=lambda name: log_path(plan.name, name),
                reporter=reporter,
                seed=secrets.randbits(62),
                before=self._durations.of(key),
                quiet=self.quiet,
            )
            result, durations = run_target(setup, self.next_judge)
            if durations and not self.options.off:
                self._durations.keep(key, durations)
            return result
        except SkipError as error:
            return SkippedTarget(plan.name, Verdict.SKIPPED, str(error))
        except AiperfError as error:
            return SkippedTarget(plan.name, Verdict.FAILED, str(error))

    def run_whole(
        self, plan: Plan, log_path: Callable[[str, str], Path], reporter: Reporter
    ) -> TargetResult | SkippedTarget:
        """Run a target to its end. Raises `KeyboardInterrupt` where Ctrl-C ended it early."""
        result = self.run(plan, log_path, reporter)
        if isinstance(result, TargetResult) and not result.complete:
            raise KeyboardInterrupt
        return result
