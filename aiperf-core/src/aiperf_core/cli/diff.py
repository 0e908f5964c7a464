"""`aiperf diff`: two functions of files, or two programs, compared without a package."""

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import Measuring, measuring_options, server_ahead
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget, Selection

# Seconds for two programs, unless --budget says otherwise.
_BUDGET_S = 3.0


@click.command("diff")
@click.argument("first", metavar="FIRST")
@click.argument("second", metavar="SECOND")
@click.option(
    "--inputs",
    metavar="FILE.py:FUNCTION",
    help="Function that returns the arguments: a tuple, a dict by name, or a single value. Its random numbers are "
    "drawn anew for every sample.",
)
@click.option("--command", "programs", is_flag=True, help="FIRST and SECOND are commands of the shell.")
@click.option("--prepare", metavar="COMMAND", help="With --command: run this before each run of either, untimed.")
@measuring_options(timeout_s=60.0, scope="")
@color_option
@click.pass_obj
def diff(
    plugins: Plugins,
    first: str,
    second: str,
    inputs: str | None,
    programs: bool,
    prepare: str | None,
    measuring: Measuring,
) -> int:
    """Compare two functions by the whole harness, or two programs, without a package and without a target.

    FIRST and SECOND are functions, as FILE.py:FUNCTION. Both run in fresh processes, in turns, on inputs that another
    process draws. A third one compares their outputs with those of FIRST in float64. The files are imported with their
    folders on the path, and are trusted; for code that is not, see 'aiperf judge'.

    With --command they are programs. Their runs take turns, and only their exit codes are checked.

    \b
    Examples:
      aiperf diff kernels.py:plain kernels.py:tiled --inputs kernels.py:make
      aiperf diff old.py:f new.py:f --inputs new.py:make --budget 10
      aiperf diff --command 'gzip -k -f data' 'zstd -k -f data' --budget 5
    """
    if programs:
        return _programs(first, second, inputs, prepare, measuring)
    if inputs is None or prepare is not None:
        raise UsageError("Functions need --inputs FILE.py:FUNCTION; --prepare goes with --command.")
    from aiperf_core.cli.resuming import execute
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.formats.functions import Pair, Place
    from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
    from aiperf_core.harness.run.request import ResolvedRequest
    from aiperf_core.work_folder import WorkFolder

    pair = Pair(
        Place.of(first, "the first function"), Place.of(second, "the second function"), Place.of(inputs, "--inputs")
    )
    server = server_ahead()
    work = WorkFolder()
    try:
        reference = pair.write(work.path / "functions.json")
        target = InstalledTarget(f"diff.{pair.names[1]}", reference.module, f"{second} against {first}")
        screen, err = consoles()
        view = RunView(err, quiet=measuring.quiet)
        request = ResolvedRequest([Selection(target)], measuring.options())
        new = NewBundle(name=target.name, out=measuring.out, labels=measuring.labels)
        planned = BundleRun(server, plugins, request, new, view)
        return execute(planned, view, screen, as_json=measuring.as_json)
    finally:
        work.close()


def _programs(first: str, second: str, inputs: str | None, prepare: str | None, measuring: Measuring) -> int:
    """Compare two commands of the shell."""
    if inputs is not None:
        raise UsageError("--inputs goes with functions; a command of --command has its inputs in its text.")
    from aiperf_core.inline.compare import FLOOR
    from aiperf_core.inline.programs import compare_programs
    from aiperf_core.results.models import Verdict

    budget_s = measuring.options().budget_s or _BUDGET_S
    compared = compare_programs(first, second, prepare=prepare, budget_s=budget_s, floor=FLOOR)
    click.echo(str(compared))
    return ExitCode.INCONCLUSIVE if compared.verdict is Verdict.INCONCLUSIVE else ExitCode.OK
