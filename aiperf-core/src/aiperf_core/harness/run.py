"""A whole run: what `aiperf run` does between its command line and its tables."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, evolve, field

from aiperf_core.events import Progress, RunFinished, RunStarted, TargetFinished, TargetStarted
from aiperf_core.harness.options import Options
from aiperf_core.harness.session import Plan, RunReporter, Session, exit_code
from aiperf_core.plugins import Plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.manifest import new_manifest
from aiperf_core.results.models import Manifest, SkippedTarget, TargetResult
from aiperf_core.targets import Selection

Finished = TargetResult | SkippedTarget


@define(eq=False)
class Run:
    """The selected targets, one after the other, into a bundle.

    name: what a new bundle is called. out: the bundle's folder, or None for a new one in the default place. reporter: who
    is told of the run's course, beside the plugins' observers.
    """

    plugins: Plugins
    selections: Sequence[Selection]
    name: str
    options: Options
    out: Path | None
    reporter: RunReporter
    bundle: Bundle | None = field(default=None, init=False)
    results: list[Finished] = field(factory=list, init=False)
    total: int = field(default=0, init=False)

    def execute(self, on_result: Callable[[Finished], None] | None = None) -> int:
        """Run everything and return the exit code. `on_result` is told of each target as it is done.

        Raises `UsageError` before anything is written, and `BundleError` where results cannot be written.
        """
        scratch = Path(tempfile.mkdtemp(prefix="aiperf-"))
        try:
            with Session(self._with_plugins(), scratch) as session:
                plans, skipped = session.plan(self.selections)
                self.bundle = self._create_bundle(plans, skipped)
                return self._measure(session, plans, skipped, on_result)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _with_plugins(self) -> Options:
        """The options, with what plugins add to the rules of a run."""
        checks = tuple(one.check for one in self.plugins.checks)
        return evolve(
            self.options,
            checks=checks,
            severities={one.issue.id: one.issue.severity for one in self.plugins.issues.values()},
        )

    def _create_bundle(self, plans: list[Plan], skipped: list[SkippedTarget]) -> Bundle:
        if self.out is not None:
            return Bundle.create_at(self.out)
        names = [one.name for one in plans] + [one.target for one in skipped]
        return Bundle.create(name=names[0] if len(names) == 1 else self.name)

    def _measure(
        self,
        session: Session,
        plans: list[Plan],
        skipped: list[SkippedTarget],
        on_result: Callable[[Finished], None] | None,
    ) -> int:
        assert self.bundle is not None
        bundle, hook = self.bundle, self.plugins.hook
        manifest = evolve(
            new_manifest(plugins=self.plugins),
            files={one.described.module: one.described.sha256 for one in plans} | self._candidate(),
            skipped=skipped,
        )
        bundle.write_manifest(manifest)
        names = tuple(one.name for one in plans)
        devices = ", ".join(sorted({one.device for one in plans}))
        hook.aiperf_run_started(run=RunStarted(targets=names, device=devices, bundle=str(bundle.path)))
        self.total = total = len(plans) + len(skipped)
        for index, one in enumerate(skipped, start=1):
            self.reporter.target_started(one.target, index, total)
            self._finish(one, on_result)
        interrupted = False
        for index, plan in enumerate(plans, start=len(skipped) + 1):
            result = self._measure_one(session, plan, index, total)
            interrupted = result is None or (isinstance(result, TargetResult) and not result.complete)
            if result is not None:
                self._finish(result, on_result)
            if interrupted:
                break
        code = exit_code(self.results, interrupted=interrupted)
        self._close_manifest(manifest, session, complete=not interrupted, code=code)
        hook.aiperf_run_finished(bundle=RunFinished(path=str(bundle.path), exit_code=code))
        return code

    def _candidate(self) -> dict[str, str]:
        source = self.options.candidate
        return {str(source.path): source.sha256} if source else {}

    def _measure_one(self, session: Session, plan: Plan, index: int, total: int) -> Finished | None:
        """The result of a target; None where Ctrl-C came before anything was measured."""
        assert self.bundle is not None
        self.reporter.target_started(plan.name, index, total)
        self.plugins.hook.aiperf_target_started(target=TargetStarted(name=plan.name, index=index, total=total))
        try:
            return session.run(plan, self.bundle.log_path, _Relay(plan.name, self.reporter, self.plugins))
        except KeyboardInterrupt:
            return None

    def _finish(self, result: Finished, on_result: Callable[[Finished], None] | None) -> None:
        assert self.bundle is not None
        path = self.bundle.path
        if isinstance(result, TargetResult):
            path = self.bundle.write_target(result)
        self.results.append(result)
        self.reporter.target_finished(result)
        verdicts = {row.name: str(row.verdict) for row in result.rows} if isinstance(result, TargetResult) else {}
        finished = TargetFinished(name=result.target, verdicts=verdicts, path=str(path))
        self.plugins.hook.aiperf_target_finished(result=finished)
        if on_result is not None:
            on_result(result)

    def _close_manifest(self, manifest: Manifest, session: Session, *, complete: bool, code: int) -> None:
        assert self.bundle is not None
        self.bundle.write_manifest(
            evolve(
                manifest,
                ceilings=session.measured_ceilings,
                skipped=[one for one in self.results if isinstance(one, SkippedTarget)],
                complete=complete,
                exit_code=code,
            )
        )


@define
class _Relay:
    """Passes a target's course on to the reporter and to the plugins' observers."""

    target: str
    reporter: RunReporter
    plugins: Plugins
    _phase: str = ""
    _implementation: str | None = None

    def phase(self, text: str, implementation: str | None = None) -> None:
        """A new phase begins."""
        self._phase, self._implementation = text, implementation
        self.reporter.phase(text, implementation)
        self._observe(None, None, None)

    def progress(self, block: int, blocks: int | None, seconds_left: float | None) -> None:
        """Sampling goes on."""
        self.reporter.progress(block, blocks, seconds_left)
        self._observe(block, blocks, seconds_left)

    def _observe(self, block: int | None, blocks: int | None, seconds_left: float | None) -> None:
        progress = Progress(
            target=self.target,
            phase=self._phase,
            implementation=self._implementation,
            block=block,
            blocks=blocks,
            seconds_left=seconds_left,
        )
        self.plugins.hook.aiperf_progress(progress=progress)
