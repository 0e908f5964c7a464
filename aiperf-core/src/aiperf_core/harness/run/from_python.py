"""Runs that programs ask for: one from Python, or one after the other with processes that stay."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from aiperf_core.devices import nvml
from aiperf_core.events import Progress
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner, RunReporter
from aiperf_core.harness.run.request import ResolvedRequest, resolve
from aiperf_core.harness.run.workers import NextJudge
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import RunRequest, SkippedTarget, TargetResult
from aiperf_core.targets import Selection


class Silent:
    """A reporter that shows nothing."""

    def run_started(self, targets: int, seconds: float, unknown: int) -> None:
        """Show nothing."""

    def target_started(self, name: str, index: int, total: int, later_s: float = 0.0) -> None:
        """Show nothing."""

    def target_finished(self, result: TargetResult | SkippedTarget) -> None:
        """Show nothing."""

    def phase(self, text: str, implementation: str | None = None) -> None:
        """Show nothing."""

    def progress(self, state: Progress) -> None:
        """Show nothing."""


def run(request: RunRequest, *, labels: Mapping[str, str] | None = None, out: str | Path | None = None) -> Bundle:
    """Measure the targets of a request, as `aiperf run` does, and return the bundle.

    request: the targets and the options of the run.
    labels: recorded in the manifest, such as `{"branch": "main"}`.
    out: the bundle's folder, new or empty; None makes a new folder in `artifacts/runs`.

    The manifest's `exit_code` says how the run ended. Raises UsageError, before anything is measured, for a target that
    is not installed or an option that a target does not accept, and BundleError where results cannot be written.
    """
    plugins = load_plugins()
    found = resolve(request, plugins)
    name = "-".join(target.target for target in request.targets)
    new = NewBundle(name=name, out=None if out is None else Path(out), labels=labels or {})
    with ForkServer() as server:
        measuring = BundleRun(server, plugins, found, new, Silent())
        measuring.execute()
    assert measuring.bundle is not None
    return measuring.bundle


class WarmRuns:
    """Measures a target again and again, with one fork server. Use as a context manager: leaving it ends every process.

    Judge, describer and workers are forked anew for each run, and import the benchmark and the candidate anew: a
    changed file has its effect at once. The judge of a candidate is forked ahead, between two runs; it is not used
    where a source of the target's package has changed since.
    """

    def __init__(self, server: ForkServer, plugins: Plugins) -> None:
        self._server, self._plugins = server, plugins
        self._scratch = Path(tempfile.mkdtemp(prefix="aiperf-"))
        self._planner = Planner(Options(), self._scratch, server=server)
        self._next_judge = self._planner.next_judge = NextJudge(server, self._scratch / "judge.log")
        self._nvml = nvml.held()
        self._last: BundleRun | None = None

    def __enter__(self) -> Self:
        self._nvml.__enter__()
        self._planner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._planner.__exit__()
        self._nvml.__exit__(None, None, None)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, selection: Selection, options: Options, reporter: RunReporter, out: Path | None) -> BundleRun:
        """A run of a target that is ready to be executed; `out` is as of `NewBundle`."""
        request, new = ResolvedRequest([selection], options), NewBundle(name=selection.target.name, out=out)
        warm, earlier = self._planner, self._last.manifest if self._last else None
        self._last = BundleRun(self._server, self._plugins, request, new, reporter, warm=warm, earlier=earlier)
        return self._last

    def get_ready(self) -> None:
        """Start the judge of the next run while no run goes on."""
        self._next_judge.start()
