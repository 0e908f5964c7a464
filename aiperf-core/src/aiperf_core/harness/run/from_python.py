"""A run that is asked for from Python."""

from collections.abc import Mapping
from pathlib import Path

from aiperf_core.events import Progress
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
from aiperf_core.harness.run.request import resolve
from aiperf_core.plugins import load_plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import RunRequest, SkippedTarget, TargetResult


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
