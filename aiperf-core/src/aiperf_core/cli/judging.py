"""The warm forms of `aiperf judge`: `--watch` for people, `--serve` for programs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from aiperf_core.candidate_format import Format, reference_of
from aiperf_core.cli.measuring import Measuring
from aiperf_core.cli.refusal import refused
from aiperf_core.cli.resuming import INTERRUPTED
from aiperf_core.cli.run_view import RunView, consoles
from aiperf_core.cli.watch import BUDGET_S
from aiperf_core.cli.watching import Files, Watch
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.bundle_run import BundleRun
from aiperf_core.harness.run.from_python import WarmRuns
from aiperf_core.harness.run.options import Options, Overrides
from aiperf_core.harness.run.setup import CANDIDATE
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.results import structure
from aiperf_core.results.models import SkippedTarget
from aiperf_core.targets import Selection
from aiperf_core.validity import quarantine

if TYPE_CHECKING:
    from aiperf_core.cli.judge_service import Request


@frozen
class Judging:
    """Target and rules that candidates are judged by."""

    server: ForkServer
    plugins: Plugins
    selection: Selection
    format: Format
    overrides: Overrides
    measuring: Measuring

    def _options(self, candidate: Path) -> Options:
        """The options for a candidate's file. Raises `UsageError` and `QuarantineError`."""
        source = check_candidate(candidate, self.format, self.plugins.known_formats)
        quarantine.refuse_known(source)
        options = self.measuring.options(candidate=source, overrides=self.overrides)
        return evolve(options, budget_s=options.budget_s or BUDGET_S)

    def watch(self, candidate: Path) -> int:
        """Judge a file whenever it is saved, until Ctrl-C."""
        reference = reference_of(self.selection.target.module)
        files = Files([candidate, *([reference.path] if reference else [])])
        screen, err = consoles()
        with WarmRuns(self.server, self.plugins) as warm:

            def measure(view: RunView, out: Path) -> BundleRun:
                return warm.run(self.selection, self._options(candidate), view, out)

            def note(run: BundleRun) -> None:
                source = run.request.options.candidate
                assert source is not None
                for result in run.results:
                    quarantine.note(source, result)

            out, quiet = self.measuring.out, self.measuring.quiet
            loop = Watch(str(candidate), files, measure, screen, err, out, quiet, note, warm.get_ready)
            return loop.until_interrupted()

    def serve(self, socket: Path) -> int:
        """Judge what programs send, until Ctrl-C or SIGTERM."""
        from aiperf_core.cli.judge_service import JudgeService

        with WarmRuns(self.server, self.plugins) as warm, JudgeService(socket) as service:
            click.echo(f"judging against {words(self.selection.target.name)} on {words(str(socket))}; Ctrl-C ends")
            service.until_interrupted(lambda request: self._answer(warm, request), warm.get_ready)
        return 0

    def _answer(self, warm: WarmRuns, request: "Request") -> dict[str, Any]:
        """The verdict on a request's candidate, as plain data."""
        _, err = consoles()
        options = self._options(request.file)
        assert options.candidate is not None
        out = self.measuring.out / f"{os.getpid()}-{request.number:06d}" if self.measuring.out else None
        run = warm.run(self.selection, options, RunView(err, quiet=True), out)
        code = run.execute()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        result = run.results[-1]
        quarantine.note(options.candidate, result)
        path = str(run.bundle.path) if run.bundle else None
        if isinstance(result, SkippedTarget):
            faulty = refused(self.selection.target, run.results)
            return {"verdict": None, "error": result.reason, "fault": "reference" if faulty else "run", "bundle": path}
        row = next(one for one in result.rows if one.name == CANDIDATE)
        whole = structure.document(row)
        chosen = ("verdict", "reason", "time_s", "speedup", "findings", "judgement")
        return {**{name: whole.get(name) for name in chosen}, "exit_code": code, "bundle": path}
