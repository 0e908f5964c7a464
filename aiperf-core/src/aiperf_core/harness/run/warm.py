"""Runs one after the other with processes that stay: the fork server, and what is known of the machine.

Judge, describer and workers are forked anew for each run, and import the benchmark and the candidate anew: a changed
file has its effect at once. The judge of a candidate is forked ahead, between two runs; it is not used where a source
of the target's package has changed since.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Self

from aiperf_core.devices import nvml
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
from aiperf_core.harness.run.judge_process import NextJudge
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner, RunReporter
from aiperf_core.harness.run.request import ResolvedRequest
from aiperf_core.plugins import Plugins
from aiperf_core.targets import Selection


class WarmRuns:
    """Measures a target again and again. Use as a context manager: leaving it ends every process."""

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
