"""A whole run: all that `aiperf run` does between its command line and its tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import define, evolve, field, frozen

from aiperf_core.described import Described
from aiperf_core.devices import nvml
from aiperf_core.errors import UsageError
from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.options import Known, Options
from aiperf_core.harness.run.planner import Planner, RunReporter
from aiperf_core.harness.run.request import ResolvedRequest, record
from aiperf_core.harness.run.setup import Plan
from aiperf_core.manifest import new_manifest
from aiperf_core.measurements import Ceilings
from aiperf_core.plugins import Plugins
from aiperf_core.results import lock, machine, resuming, run_segments
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.exit_codes import exit_code
from aiperf_core.results.models import BundleRef, Manifest, SkippedTarget, TargetResult, Verdict
from aiperf_core.results.sources import of_modules, package_hashes
from aiperf_core.stats import resumable
from aiperf_core.stats.speed_of_light import under
from aiperf_core.sweep import base_name
from aiperf_core.targets import Selection

Finished = TargetResult | SkippedTarget


@frozen
class Preview:
    """Plan of a run for one target.

    implementations: the names of those that would be measured.
    skipped: of the others, the requirement that this machine lacks, by name.
    budget_s: seconds of sampling.
    seconds: an estimate of the whole time; the sampling budget where `known` is false.
    known: whether an earlier run of the target says how long it takes.
    described: the declarations of the target.
    """

    target: str
    device: str
    size: str
    params: dict[str, float]
    tier: str
    implementations: list[str]
    skipped: dict[str, str]
    budget_s: float
    seconds: float
    known: bool
    described: Described


@frozen(kw_only=True)
class NewBundle:
    """The bundle that a run creates.

    name: its name in the default place, for a run of several targets.
    out: its folder; None for a new folder in the default place.
    labels: recorded in its manifest.
    reproduces: the bundle that is reproduced.
    """

    name: str
    out: Path | None = None
    labels: Mapping[str, str] = field(factory=dict)
    reproduces: BundleRef | None = None

    def create(self, targets: Iterable[str]) -> Bundle:
        """Create the bundle for these targets. Raises `BundleError`."""
        if self.out is not None:
            return Bundle.create_at(self.out)
        names = {base_name(one) for one in targets}
        return Bundle.create(name=names.pop() if len(names) == 1 else self.name)


@define(eq=False)
class BundleRun:
    """Measures the selected targets in turn and writes them to a bundle.

    server: the fork server.
    request: the targets and their options; options of a single target that no longer fit cost only that target.
    into: the bundle to create, or the bundle of an interrupted run that is resumed.
    reporter: gets the progress, beside the plugins' observers.
    before: called with the plans before anything is written; an error ends the run.
    after: called after a target was measured and written, for instance to profile it.
    warm: a planner that stays open after the run, with its processes and what it knows of the machine.
    earlier: the manifest of a run before it with the same warm planner.
    bundle: the bundle, once it is open.
    manifest: as it was last written.
    results: the targets that are done.
    total: how many targets the run has.
    """

    server: ForkServer
    plugins: Plugins
    request: ResolvedRequest
    into: NewBundle | Bundle
    reporter: RunReporter
    before: Callable[[Sequence[Plan]], None] | None = field(default=None, kw_only=True)
    after: Callable[[Plan, Planner], None] | None = field(default=None, kw_only=True)
    warm: Planner | None = field(default=None, kw_only=True)
    earlier: Manifest | None = field(default=None, kw_only=True)
    bundle: Bundle | None = field(default=None, init=False)
    manifest: Manifest | None = field(default=None, init=False)
    results: list[Finished] = field(factory=list, init=False)
    total: int = field(default=0, init=False)
    _on_result: Callable[[Finished], None] | None = field(default=None, init=False)

    def execute(self, on_result: Callable[[Finished], None] | None = None) -> int:
        """Run everything and return the exit code. `on_result` is called with each target that is done.

        Raises `UsageError` before anything is written, and `BundleError` where results cannot be written or a run
        cannot be resumed.
        """
        self._on_result = on_result
        with self._planner() as planner, ThreadPoolExecutor(2) as aside:
            # While the planner's processes start, and describe the targets. Git runs as processes beside the hashing.
            drafting = aside.submit(new_manifest, plugins=self.plugins, earlier=self.earlier)
            hashing = aside.submit(package_hashes, [one.target.module for one in self.request.selections])
            plans, skipped = self._plan(planner)
            if self.before is not None:
                self.before(plans)
            names = [*(one.name for one in plans), *(one.target for one in skipped)]
            self.bundle = self.into if isinstance(self.into, Bundle) else self.into.create(names)
            with lock.held(self.bundle.path, required=self.bundle is self.into):
                drafted = evolve(drafting.result(), sources=hashing.result(), ceilings=planner.measured_ceilings)
                if planner.next_judge is not None:
                    planner.next_judge.sources = drafted.sources
                self._begin(drafted, plans, skipped)
                return self._measure(planner, plans)

    def preview(self) -> tuple[list[Preview], list[SkippedTarget]]:
        """Plans of the targets that `execute` would measure, and those it would skip. Nothing is measured or written.

        Raises `UsageError` as `execute` does.
        """
        with self._planner() as planner:
            plans, skipped = self._plan(planner)
            return [self._preview(planner, plan) for plan in plans], skipped

    @contextmanager
    def _planner(self) -> Iterator[Planner]:
        """The warm planner, or one with a temporary folder."""
        if self.warm is not None:
            self.warm.options = self._with_plugins(self.request.options)
            yield self.warm
            return
        options = self._with_plugins(self.request.options)
        scratch = TemporaryDirectory(prefix="aiperf-", ignore_cleanup_errors=True)
        with scratch as folder, Planner(options, Path(folder), server=self.server) as planner, nvml.held():
            yield planner

    def _preview(self, planner: Planner, plan: Plan) -> Preview:
        seconds, known = self._estimate(planner, plan)
        chosen, options = planner.implementations(plan), planner.options
        return Preview(
            target=plan.name,
            device=plan.device,
            size=plan.size,
            params=plan.params,
            tier=options.tier,
            implementations=[one.name for one, lacks in chosen if lacks is None],
            skipped={one.name: lacks for one, lacks in chosen if lacks is not None},
            budget_s=options.round_budget_s * options.rounds,
            seconds=seconds,
            known=known,
            described=plan.described,
        )

    @property
    def resumable(self) -> bool:
        """Whether there is a bundle that can be resumed."""
        return self.manifest is not None and self.manifest.request is not None and not self.manifest.complete

    @property
    def _open_bundle(self) -> Bundle:
        assert self.bundle is not None
        return self.bundle

    @property
    def _current(self) -> Manifest:
        """The manifest as it was last written."""
        assert self.manifest is not None
        return self.manifest

    def _with_plugins(self, options: Options) -> Options:
        """The options, with the checks, devices and executors of plugins."""
        known = Known(
            devices=self.plugins.known_devices,
            executors=self.plugins.known_executors,
            checks=tuple(one.record for one in self.plugins.checks),
            severities={one.record.id: one.record.severity for one in self.plugins.issues.values()},
        )
        return evolve(options, known=known)

    def _options_of(self, target: str) -> Options:
        return self._with_plugins(self.request.options_of(target))

    # --- planning

    def _plan(self, planner: Planner) -> tuple[list[Plan], list[SkippedTarget]]:
        if not self.request.each:
            planned = planner.plan(self.request.selections)
            for one in planned[0]:
                _check_size(one, self.request.options)
            return planned
        plans: list[Plan] = []
        skipped: list[SkippedTarget] = []
        for selection in self.request.selections:
            name = selection.name
            planner.options = self._options_of(name)
            if planner.options.device == "cuda" and not planner.hardware.gpus:
                raise UsageError(
                    f"{name!r} was measured on a GPU, and this machine has none. Use a machine with a GPU, or name a "
                    "target that was measured on a processor. See what is missing with: aiperf doctor"
                )
            try:
                found, left = planner.plan([evolve(selection, implementations=frozenset())])
            except UsageError as error:
                found, left = [], [SkippedTarget(name, Verdict.FAILED, str(error))]
            for one in found:
                narrowed = _narrowed(one, selection)
                plans.append(narrowed) if isinstance(narrowed, Plan) else skipped.append(narrowed)
            skipped += left
        return plans, skipped

    # --- the bundle

    def _begin(self, drafted: Manifest, plans: list[Plan], skipped: list[SkippedTarget]) -> None:
        """Write the manifest of a run that begins or is resumed."""
        now = self._planned(drafted, plans, skipped)
        if isinstance(self.into, NewBundle):
            self._write(evolve(now, labels=dict(self.into.labels), reproduces=self.into.reproduces))
            return
        then = self.into.manifest
        resumable.check(self.into, then, now)
        kept = resuming.finished(self.into, then)
        self.results += kept
        self._write(run_segments.reopened(then, now.stretches[0], kept, skipped))
        resuming.clear(self.into, {one.target for one in kept})

    def _planned(self, drafted: Manifest, plans: list[Plan], skipped: list[SkippedTarget]) -> Manifest:
        """The manifest with the planned targets."""
        files, source = {one.described.module: one.described.sha256 for one in plans}, self.request.options.candidate
        return evolve(
            drafted,
            files=files | ({str(source.path): source.sha256} if source else {}),
            skipped=skipped,
            request=record(self.request),
            stretches=[run_segments.begun(machine.state(drafted.machine))],
            sources=of_modules(drafted.sources, (one.described.module for one in plans)),
        )

    def _write(self, manifest: Manifest) -> None:
        self._open_bundle.write_manifest(manifest)
        self.manifest = manifest

    def _note(self, planner: Planner, finished: Finished | None = None, ending: str | None = None) -> Manifest:
        """The manifest, updated."""
        return run_segments.noted(self._current, planner.measured_ceilings, finished, ending)

    # --- measuring

    def _measure(self, planner: Planner, plans: list[Plan]) -> int:
        hook, path = self.plugins.hook, str(self._open_bundle.path)
        kept = {one.target for one in self.results}
        unplanned = [one for one in self._current.skipped if one.target not in kept]
        plans = [one for one in plans if one.name not in kept]
        devices = ", ".join(sorted({one.device for one in plans}))
        hook.aiperf_run_started(run=RunStarted(targets=tuple(one.name for one in plans), device=devices, bundle=path))
        self.total = total = len(kept) + len(unplanned) + len(plans)
        estimates_s = self._announce(planner, plans)
        for index, one in enumerate(unplanned, start=1 + len(kept)):
            self.reporter.target_started(one.target, index, total)
            self._finish(one)
        interrupted, result = False, None
        try:
            before = len(self.results)
            for number, plan in enumerate(plans, start=1):
                result = self._measure_one(planner, plan, before + number, sum(estimates_s[number:]))
                interrupted = result is None or (isinstance(result, TargetResult) and not result.complete)
                if result is not None:
                    self._keep(planner, result)
                    self._finish(result)
                if interrupted:
                    break
                if self.after is not None and isinstance(result, TargetResult):
                    self.after(plan, planner)
        except KeyboardInterrupt:  # between two targets, or while one was being written
            interrupted = True
            if result is not None and result not in self.results:
                self._keep(planner, result)
                self.results.append(result)
        code = exit_code(self.results, interrupted=interrupted)
        closed = self._note(planner, ending="interrupted" if interrupted else "finished")
        self._compare_with(closed.ceilings)
        self._write(evolve(closed, complete=not interrupted, exit_code=code))
        hook.aiperf_run_finished(bundle=RunFinished(path=path, exit_code=code))
        return code

    def _announce(self, planner: Planner, plans: list[Plan]) -> list[float]:
        """Report how long the run takes about, and return how long each target takes."""
        estimates = [self._estimate(planner, plan) for plan in plans]
        unknown = sum(not known for _, known in estimates)
        self.reporter.run_started(len(plans), sum(seconds for seconds, _ in estimates), unknown)
        return [seconds for seconds, _ in estimates]

    def _estimate(self, planner: Planner, plan: Plan) -> tuple[float, bool]:
        planner.options = self._options_of(plan.name)
        return planner.estimate_s(plan)

    def _measure_one(self, planner: Planner, plan: Plan, index: int, later_s: float) -> Finished | None:
        """The result of a target; None where Ctrl-C came before anything was measured."""
        self.reporter.target_started(plan.name, index, self.total, later_s)
        self.plugins.hook.aiperf_target_started(target=TargetStarted(name=plan.name, index=index, total=self.total))
        planner.options = self._options_of(plan.name)
        try:
            return planner.run(plan, self._open_bundle.log_path, Relay(plan.name, self.reporter, self.plugins))
        except KeyboardInterrupt:
            return None

    def _keep(self, planner: Planner, result: Finished) -> None:
        """Write a target that is done to disk.

        The ceilings come first: the target's fractions of the speed of light are computed from them.
        """
        noted = self._note(planner)
        if noted.ceilings != self._current.ceilings:
            self._write(noted)
        if isinstance(result, TargetResult):
            self._open_bundle.write_target(result)
        self._write(self._note(planner, result))

    def _compare_with(self, ceilings: Mapping[str, Ceilings]) -> None:
        """Compute all fractions of the speed of light from the same ceilings, which may have been measured again."""
        for index, result in enumerate(self.results):
            if isinstance(result, TargetResult):
                compared = under(result, ceilings.get(result.device))
                if compared != result:
                    self._open_bundle.write_target(compared)
                    self.results[index] = compared

    def _finish(self, result: Finished) -> None:
        verdicts, path = {}, self._open_bundle.path
        if isinstance(result, TargetResult):
            verdicts = {row.name: str(row.verdict) for row in result.rows}
            path = self._open_bundle.target_path(result.target)
        self.results.append(result)
        self.reporter.target_finished(result)
        finished = TargetFinished(name=result.target, verdicts=verdicts, path=str(path))
        self.plugins.hook.aiperf_target_finished(result=finished)
        if self._on_result is not None:
            self._on_result(result)


def _check_size(plan: Plan, options: Options) -> None:
    """Raise `UsageError` where a sweep gives every parameter of the preset that `--size` names."""
    given = {**options.params, **dict(plan.selection.point)}
    if plan.selection.point and options.size is not None and plan.params.keys() <= given.keys():
        raise UsageError(
            f"--size {options.size} conflicts with --set: {plan.selection.target.name!r} has no parameters besides "
            f"{', '.join(sorted(given))}, and --set gives them all. Leave out --size."
        )


def _narrowed(plan: Plan, selection: Selection) -> Plan | SkippedTarget:
    """The plan with the wanted implementations that still exist."""
    wanted = selection.implementations
    there = wanted & {one.name for one in plan.described.on(plan.device)}
    if wanted and not there:
        names = ", ".join(sorted(wanted))
        return SkippedTarget(plan.name, Verdict.FAILED, f"none of its implementations exists any more: {names}")
    return evolve(plan, selection=evolve(selection, implementations=there))


@frozen
class Relay:
    """Passes a target's progress on to the reporter and to the plugins' observers."""

    target: str
    reporter: RunReporter
    plugins: Plugins

    def phase(self, text: str, implementation: str | None = None) -> None:
        """A phase begins."""
        self.reporter.phase(text, implementation)
        self._observe(Progress(target=self.target, phase=text, implementation=implementation))

    def progress(self, state: Progress) -> None:
        """The run continues."""
        self.reporter.progress(state)
        self._observe(state)

    def _observe(self, progress: Progress) -> None:
        self.plugins.hook.aiperf_progress(progress=progress)
