"""`aiperf judge`: benchmark untrusted code in a sandbox."""

from pathlib import Path

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import Measuring, measuring_options, server_ahead
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget, Selection


@click.command("judge")
@click.argument("candidate", type=click.Path(path_type=Path), metavar="CANDIDATE.py")
@click.option(
    "--target",
    required=True,
    metavar="TARGET[:BASELINE]",
    help="Target that the candidate implements, and the baseline to compare with.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(("aiperf", "kernelbench")),
    default="aiperf",
    show_default=True,
    help="kernelbench: CANDIDATE.py defines ModelNew; --target is a file with Model, get_inputs, get_init_inputs.",
)
@measuring_options(timeout_s=30.0, scope="")
@color_option
@click.pass_obj
def judge(plugins: Plugins, candidate: Path, target: str, kind: str, measuring: Measuring) -> int:
    """Benchmark untrusted code in a sandbox, against the baseline of a target.

    CANDIDATE.py defines `class Implementation` with `run(self, ...)` and an optional `prepare(self, ...)`. The
    parameters are inputs of the target. The candidate runs in a sandboxed process that holds no reference, tolerance or
    seed. Another process makes the verdict. Exit code 3: the candidate is INVALID. A file that was INVALID three times
    is refused until it changes.
    """
    server = server_ahead()
    from aiperf_core.cli.resuming import execute
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.harness.isolation import quarantine
    from aiperf_core.harness.isolation.candidate import check_candidate
    from aiperf_core.harness.run.bundle_run import BundleRun
    from aiperf_core.harness.run.setup import CANDIDATE
    from aiperf_core.results.models import TargetResult

    selection, baseline = _selection(plugins, target, kind)
    source = check_candidate(candidate, kind)
    quarantine.refuse_known(source)
    options = measuring.options(candidate=source, baseline=baseline)
    screen, err = consoles()
    view = RunView(err, quiet=measuring.quiet)
    planned = BundleRun(
        server, plugins, [selection], selection.target.name, options, measuring.out, view, labels=measuring.labels
    )
    code = execute(planned, view, screen, as_json=measuring.as_json)
    for row in (row for result in planned.results if isinstance(result, TargetResult) for row in result.rows):
        if row.name == CANDIDATE:
            quarantine.note(source, row)
    return code


def _selection(plugins: Plugins, target: str, kind: str) -> tuple[Selection, str | None]:
    """The target, and the name of the baseline if given."""
    if kind == "kernelbench":
        return Selection(_kernelbench(Path(target))), None
    name, _, baseline = target.partition(":")
    selections = plugins.select((name,))
    if len(selections) != 1:
        raise UsageError(f"--target takes one target, such as practice.matmul; {name!r} matches {len(selections)}.")
    return Selection(selections[0].target), baseline or None


def _kernelbench(reference: Path) -> InstalledTarget:
    from aiperf_core.kernelbench import KERNELBENCH

    if not reference.is_file():
        raise UsageError(f"--target '{reference}' is not a file; --format kernelbench needs the file of the reference.")
    module = f"{KERNELBENCH}{reference.resolve()}"
    return InstalledTarget(f"kernelbench.{reference.stem}", module, f"the Model of {reference.name}")
