"""How `aiperf expectations write` measures targets: longer, until the intervals are narrow."""

from collections.abc import Sequence

import click
from attrs import define, evolve, field

from aiperf_core.cli.measuring import server_ahead, warn_of_skipped
from aiperf_core.cli.resuming import INTERRUPTED, print_resume_hint, run_to_end
from aiperf_core.cli.run_view import RunView, consoles
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.harness.run.bundle_run import BundleRun, Finished, NewBundle
from aiperf_core.harness.run.options import TIERS, Options
from aiperf_core.harness.run.request import ResolvedRequest
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.results.address import Address
from aiperf_core.results.exit_codes import exit_code
from aiperf_core.results.models import SkippedTarget
from aiperf_core.stats import expectations as rules
from aiperf_core.targets import Selection, TargetFilter

# The longest sampling time, as a multiple of the first.
LONGEST = 8


@define
class Narrowing:
    """Measures targets, and those with wide intervals again with twice the sampling time.

    only, device, tier, budget_s: as for `aiperf run`.
    min_speedup: rows whose interval is below it need not be narrow.
    quiet: whether no progress is shown.
    addresses: the measured results in their order, after `run`; none after Ctrl-C. A target that was measured again
        has several, the later ones only with its rows that were not sure.
    """

    plugins: Plugins
    only: TargetFilter
    device: str | None
    tier: str
    budget_s: float | None
    min_speedup: float
    quiet: bool = field(kw_only=True)
    addresses: list[Address] = field(factory=list, init=False)

    def run(self, pattern: str, goal: str | None) -> int:
        """Measure the targets of a pattern and return the exit code.

        goal: only targets with this goal, or None. Raises UsageError where no target is left, and BundleError for
        sources that git does not have.
        """
        warn_of_skipped(self.plugins)
        chosen = [one for one in self.plugins.select((pattern,), self.only) if goal in (None, one.target.goal)]
        if not chosen:
            raise UsageError(f"no target of {pattern!r} has the goal {goal}. See: aiperf list")
        for selection in chosen:
            source = rules.source_of(selection.target)
            if source is not None:
                rules.refuse_changes(source)
        server, waiting = server_ahead(), chosen
        first = self.budget_s or TIERS[self.tier].budget_s
        results: list[Finished] = []
        budget_s = first
        _, err = consoles()
        while True:
            options = Options(device=self.device, tier=self.tier, budget_s=budget_s)
            with RunView(err, quiet=self.quiet) as view:
                request = ResolvedRequest(waiting, options)
                run = BundleRun(server, self.plugins, request, NewBundle(name=pattern), view)
                code = run_to_end(run, None)
            if code == INTERRUPTED or run.bundle is None:
                print_resume_hint(run)
                self.addresses.clear()
                return INTERRUPTED
            results += run.results
            for one in run.results:
                if isinstance(one, SkippedTarget):
                    click.echo(f"{words(one.target)}: {one.verdict.value}: {words(one.reason)}", err=True)
                else:
                    self.addresses.append(Address(run.bundle, one.target))
            waiting, budget_s = self._wide(waiting, run.results), 2 * budget_s
            if not waiting or budget_s > LONGEST * first:
                break
            server = server_ahead()  # a run ends the server that it was given
            names = ", ".join(words(one.target.name) for one in waiting)
            click.echo(f"interval still too wide; measuring again for {budget_s:g} s a target: {names}", err=True)
        return exit_code(results, interrupted=False) or (ExitCode.INCONCLUSIVE if waiting else ExitCode.OK)

    def _wide(self, selections: Sequence[Selection], results: Sequence[Finished]) -> list[Selection]:
        """The selections that have rows which more samples may make sure, with these rows only."""
        names = {
            one.target: {row.name for row in one.rows if rules.can_narrow(one, row, self.min_speedup)}
            for one in results
            if not isinstance(one, SkippedTarget)
        }
        return [
            evolve(one, implementations=frozenset(names[one.target.name]))
            for one in selections
            if names.get(one.target.name)
        ]
