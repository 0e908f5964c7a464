"""`aiperf run`: measure targets and check their results."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from aiperf_core.cli.bundles import BUNDLE, Seals
from aiperf_core.cli.ci import Ci, ci_options
from aiperf_core.cli.leveled import EVERYDAY, Leveled
from aiperf_core.cli.measuring import (
    Measuring,
    executor_option,
    measuring_options,
    patterns_or_all,
    server_ahead,
    targets_option,
    warn_of_contradiction,
    warn_of_skipped,
)
from aiperf_core.cli.row_options import row_options
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.executor import SEVERAL_MACHINES, TORCHRUN
from aiperf_core.names import words
from aiperf_core.plugins import Plugins
from aiperf_core.sweep import MOST_POINTS, axes_of, fixed, points
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.harness.processes.child import ForkServer
    from aiperf_core.harness.run.bundle_run import BundleRun
    from aiperf_core.harness.run.planner import RunReporter
    from aiperf_core.harness.run.setup import Plan
    from aiperf_core.render.row_columns import View
    from aiperf_core.results.address import Address
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.targets import Selection

# The options by heading.
GROUPS = {
    EVERYDAY: ("variants", "size", "sizes", "budget_s", "device", "tier", "out"),
    "Targets": ("keyword", "exclude"),
    "Sampling": ("policy", "min_samples", "until_decided", "timeout_s", "labels", "resume", "dry_run", "profiler"),
    "Sweeps": ("picture", "max_points"),
    "Output": ("as_json", "quiet", "compact", "columns", "verbose", "sort", "color"),
    "Continuous integration": ("junit", "github"),
    "Several machines": ("executor", "nnodes", "endpoint", "node_rank"),
    "Help": ("help_all",),
}


@click.command("run", cls=Leveled, groups=GROUPS)
@click.argument("patterns", nargs=-1, metavar="PATTERN...")
@targets_option
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME", help="Only this and the baseline. May be repeated."
)
@measuring_options(timeout_s=60.0, scope=" per target")
@click.option(
    "--set",
    "sizes",
    multiple=True,
    metavar="NAME=VALUES",
    help="Override a size: n=1e6. Several values make a sweep: n=1e6,1e7 or n=1e3:1e6:x10 or n=2**10..2**20. May be "
    "repeated: a grid.",
)
@click.option(
    "--picture", type=click.Path(path_type=Path), metavar="FILE", help="Draw the sweep: an .svg, .png or .pdf file."
)
@click.option(
    "--max-points",
    type=click.IntRange(2),
    default=MOST_POINTS,
    show_default=True,
    metavar="COUNT",
    help="Limit for the points of a sweep, per target.",
)
@click.option("--resume", type=BUNDLE, metavar="BUNDLE", help="Continue an interrupted run.")
@click.option("--dry-run", is_flag=True, help="Show what would be measured and for how long, and measure nothing.")
@click.option(
    "--profile",
    "profiler",
    flag_value="auto",
    is_flag=False,
    metavar="[TOOL]",
    help="Also profile each target by this tool. [default: as aiperf profile]",
)
@row_options
@ci_options
@executor_option()
@click.option("--nnodes", type=click.IntRange(1), default=1, metavar="COUNT", help="Number of machines. [default: 1]")
@click.option("--rdzv-endpoint", "endpoint", metavar="HOST:PORT", help="Address of the first machine.")
@click.option(
    "--node-rank", type=click.IntRange(0), default=0, metavar="NUMBER", help="Number of this machine. [default: 0]"
)
@click.pass_context
def run(
    context: click.Context,
    patterns: tuple[str, ...],
    only: TargetFilter,
    sizes: tuple[str, ...],
    picture: Path | None,
    max_points: int,
    variants: tuple[str, ...],
    resume: "Address | None",
    dry_run: bool,
    profiler: str | None,
    executor: str | None,
    nnodes: int,
    endpoint: str | None,
    node_rank: int,
    measuring: Measuring,
    view: "View | None",
    ci: Ci,
) -> int:
    """Measure all implementations of targets side by side, and check that they do the same work.

    A PATTERN is a group (ch07), a target (ch07.memory_access), one implementation (ch07.memory_access:coalesced), a tag
    (tag:memory), a glob, 'all', or a word in names, tags or summaries (transpose). Results are written to a new folder
    in artifacts/runs.

    A sweep measures each target at every point, and shows a table over all points. The meaning of a term of a table:
    'aiperf explain TERM'.

    \b
    Examples:
      aiperf run ch07.memory_access
      aiperf run ch07 --tier standard --out results/monday
      aiperf run ch07.memory_access:coalesced --set n=1e6,1e7,1e8
      aiperf run all --exclude ch04 --dry-run
    """
    plugins: Plugins = context.obj
    warn_of_skipped(plugins)
    axes = axes_of(sizes)
    swept = points(axes, max_points)
    if picture is not None:
        from aiperf_core.report import picture as pictures

        if not swept and resume is None:
            raise UsageError("--picture draws a sweep: give a parameter several values, such as --set n=1e6,1e7")
        pictures.check(picture, "--picture")
    joined = None
    if dry_run and (resume is not None or nnodes > 1 or endpoint is not None or node_rank):
        raise UsageError("--dry-run cannot be combined with --resume, nor with runs on several machines.")
    if nnodes > 1 or endpoint is not None or node_rank:
        if resume is not None or executor not in (None, "torchrun"):
            raise UsageError("--nnodes cannot be combined with --resume, nor with an --executor other than torchrun.")
        if swept:
            raise UsageError("--nnodes cannot be combined with a sweep; give each --set a single value.")
        patterns = patterns_or_all(patterns, only)
        several = plugins.known_executors.get(SEVERAL_MACHINES, TORCHRUN)
        tell = (lambda _: None) if measuring.quiet else partial(click.echo, err=True)
        joined = several.join(_selections(plugins, patterns, only, variants), nnodes, endpoint, node_rank, tell)
        if joined is None:
            return ExitCode.OK
        installed, executor = evolve(plugins.executors[TORCHRUN.name], record=joined), TORCHRUN.name
        plugins = evolve(plugins, executors={**plugins.executors, executor: installed})
    server = server_ahead()
    from aiperf_core.cli.profile import profiling
    from aiperf_core.cli.resuming import execute
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
    from aiperf_core.harness.run.options import Known
    from aiperf_core.harness.run.request import ResolvedRequest

    screen, err = consoles()
    progress = RunView(err, quiet=measuring.quiet)
    if resume is not None:
        resumed = _resumed(context, server, plugins, resume.bundle, progress)
        if resumed is None:
            with Seals([resume]) as seals:
                click.echo(f"{words(str(resume))} is complete; there is nothing to resume.", err=True)
            return seals.code or ExitCode.OK
        planned = resumed
    else:
        patterns = patterns_or_all(patterns, only)
        options = measuring.options(executor=executor, params=fixed(axes))
        if joined is not None:
            options = evolve(options, known=Known(executors=plugins.known_executors))
        chosen = _selections(plugins, patterns, only, variants)
        selections = [evolve(one, point=point) for one in chosen for point in swept or [()]]
        new = NewBundle(name="-".join(patterns), out=measuring.out, labels=measuring.labels)
        resolved = ResolvedRequest(selections, options)
        planned = BundleRun(server, plugins, resolved, new, progress, before=_warn_of_contradictions)
    if dry_run:
        from aiperf_core.cli import dry_run as preview

        return preview.dry_run(planned, as_json=measuring.as_json)
    if profiler is not None:
        profiling(planned, profiler, None if measuring.as_json else screen, err, quiet=measuring.quiet)
    code = execute(planned, progress, screen, as_json=measuring.as_json, rows=view, picture=picture)
    if ci.given:
        from aiperf_core.render.ci import cases_of_run

        ci.write(plugins, cases_of_run(planned.results))
    return code


def _warn_of_contradictions(plans: "Sequence[Plan]") -> None:
    """Say once for each target where plugin.py contradicts its file."""
    by_name = {one.selection.target.name: (one.selection.target, one.described) for one in plans}
    for target, described in by_name.values():
        warn_of_contradiction(target, described.goal, {one.device for one in described.implementations})


def _resumed(
    context: click.Context, server: "ForkServer", plugins: Plugins, bundle: "Bundle", view: "RunReporter"
) -> "BundleRun | None":
    """The run to continue; None for a complete run."""
    from aiperf_core.cli.resuming import resolved
    from aiperf_core.harness.run.bundle_run import BundleRun

    request = resolved(context, plugins, bundle)
    if request is None:
        return None
    return BundleRun(server, plugins, request, bundle, view)


def _selections(
    plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter, variants: tuple[str, ...]
) -> list["Selection"]:
    """The targets of the patterns. `--variant` limits each to the named implementations and its baseline."""
    return [
        evolve(chosen, implementations=chosen.implementations | {*variants})
        for chosen in plugins.select(patterns, only)
    ]
