"""`aiperf run`: measure targets."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from aiperf_core.cli.measuring import executor_option, measuring_options, server_ahead, sizes_of
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.harness.processes.child import ForkServer
    from aiperf_core.harness.run.bundle_run import BundleRun, Finished
    from aiperf_core.harness.run.planner import RunReporter
    from aiperf_core.targets import Selection


@click.command("run")
@click.argument("patterns", nargs=-1, metavar="PATTERN...")
@click.option("--set", "sizes", multiple=True, metavar="NAME=NUMBER", help="Override one size; may be repeated.")
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME", help="Only the baseline and this; may be repeated."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="BUNDLE",
    help="Go on with a run that was interrupted, with its own patterns and options.",
)
@click.option(
    "--profile",
    "profiler",
    is_flag=False,
    flag_value="torch",
    metavar="[TOOL]",
    help="Profile each target after it was measured, as aiperf profile does. [TOOL: torch]",
)
@executor_option()
@click.option(
    "--nnodes", type=click.IntRange(1), default=1, metavar="COUNT", help="Ranks on so many machines. [default: 1]"
)
@click.option("--rdzv-endpoint", "endpoint", metavar="HOST:PORT", help="Where the first of several machines listens.")
@click.option(
    "--node-rank", type=click.IntRange(0), default=0, metavar="NUMBER", help="Which of them this one is. [default: 0]"
)
@measuring_options(timeout_s=60.0, scope=" a target")
@click.pass_context
def run(
    context: click.Context,
    patterns: tuple[str, ...],
    device: str | None,
    size: str | None,
    sizes: tuple[str, ...],
    variants: tuple[str, ...],
    resume: Path | None,
    profiler: str | None,
    executor: str | None,
    nnodes: int,
    endpoint: str | None,
    node_rank: int,
    tier: str,
    policy: str,
    budget: float | None,
    timeout: float,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure targets: all implementations side by side, checked to do the same work.

    A PATTERN is a group (ch07), a target (ch07.memory_access), one implementation of it (ch07.memory_access:coalesced),
    a tag (tag:memory), a glob or 'all'. Results go to a new folder in artifacts/runs.
    """
    plugins: Plugins = context.obj
    for skipped in plugins.set_aside:
        click.echo(str(skipped), err=True)
    nodes = None
    if nnodes > 1 or endpoint is not None or node_rank:
        from aiperf_core.cli.several_machines import nodes_of, serve, with_nodes

        if resume is not None or executor not in (None, "torchrun"):
            raise UsageError("--nnodes goes with neither --resume nor another --executor than torchrun.")
        nodes = nodes_of(_selections(plugins, patterns, variants), nnodes, endpoint, node_rank)
        if node_rank:
            return serve(nodes, node_rank, quiet=quiet)
        plugins, executor = with_nodes(plugins, nodes, quiet=quiet), "torchrun"
    server = server_ahead()
    from aiperf_core.cli.profile import profiling
    from aiperf_core.cli.resuming import carry_out, say_how_to_go_on
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.harness.run.bundle_run import BundleRun
    from aiperf_core.harness.run.options import Options

    screen, err = consoles()
    with RunView(err, quiet=quiet) as view:
        if resume is not None:
            found = _resumed(context, server, plugins, resume, view)
            if found is None:
                return ExitCode.OK
            one = found
        elif not patterns:
            raise UsageError("Missing argument 'PATTERN...'. See: aiperf run --help")
        else:
            options = Options(
                device=device,
                executor=executor,
                size=size,
                params=sizes_of(sizes),
                tier=tier,
                policy=policy,
                budget_s=budget,
                timeout_s=timeout,
            )
            if nodes is not None:
                options = evolve(options, executors=plugins.known_executors)
            one = BundleRun(
                server, plugins, _selections(plugins, patterns, variants), "-".join(patterns), options, out, view
            )
        if profiler is not None:
            one.after = profiling(one, profiler, None if as_json else screen, err, quiet=quiet)
        code = carry_out(one, None if as_json else lambda result: _print(screen, result, one))
    _print_end(screen, one, as_json)
    say_how_to_go_on(one)
    return code


def _resumed(
    context: click.Context, server: "ForkServer", plugins: Plugins, path: Path, view: "RunReporter"
) -> "BundleRun | None":
    """The run to go on with; None for one that is complete, which is said."""
    from aiperf_core.cli.resuming import resolved
    from aiperf_core.harness.run.bundle_run import BundleRun
    from aiperf_core.names import words
    from aiperf_core.results.bundle import Bundle

    bundle = Bundle.open(path)
    request = resolved(context, plugins, bundle)
    if request is None:
        click.echo(f"{words(str(path))} is complete; there is nothing to do.", err=True)
        return None
    return BundleRun(server, plugins, request.selections, "", request.options, None, view, each=request.each, resumes=bundle)


def _selections(plugins: Plugins, patterns: tuple[str, ...], variants: tuple[str, ...]) -> list["Selection"]:
    """The targets of the patterns; with `--variant` only those implementations of each, beside its baseline."""
    return [evolve(one, implementations=one.implementations | {*variants}) for one in plugins.select(patterns)]


def _print(screen: "Screen", result: "Finished", one: "BundleRun") -> None:
    from aiperf_core.cli.run_view import print_result

    alone = len(one.results) == 1 and one.total == 1
    print_result(screen, result, one.bundle.path if alone and one.bundle else None)


def _print_end(screen: "Screen", one: "BundleRun", as_json: bool) -> None:
    from aiperf_core.cli.run_view import print_json, print_summary

    path = one.bundle.path if one.bundle else None
    if as_json:
        print_json(screen, one.results, path)
    elif one.total > 1:
        print_summary(screen, one.results, path)
