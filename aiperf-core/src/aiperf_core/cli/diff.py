"""`aiperf diff`: two functions of files, or two programs, compared without a package."""

from typing import TYPE_CHECKING

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import Measuring, echo_json, measuring_options, server_ahead
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget, Selection

if TYPE_CHECKING:
    from aiperf_core.inline.compared import Compared
    from aiperf_core.inline.programs import Commands

# Seconds for two programs, unless --budget says otherwise.
_BUDGET_S = 3.0
# The options that say something of programs; all others are refused with --command.
_OF_PROGRAMS = (
    "first",
    "second",
    "inputs",
    "programs",
    "prepare",
    "parameters",
    "warm_up",
    "budget_s",
    "as_json",
    "quiet",
    "color",
)
_ON_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE


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
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="With --command: replace {NAME} in the commands, and compare them for each value. May be repeated.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="COUNT",
    help="With --command: untimed runs of each before.",
)
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
    parameters: tuple[str, ...],
    warm_up: int,
    measuring: Measuring,
) -> int:
    """Compare two functions by the whole harness, or two programs, without a package and without a target.

    FIRST and SECOND are functions, as FILE.py:FUNCTION. Both run in fresh processes, in turns, on inputs that another
    process draws. A third one compares their outputs with those of FIRST in float64. The files are imported with their
    folders on the path, and are trusted; for code that is not, see 'aiperf judge'.

    With --command they are programs. Their runs take turns, and only their exit codes are checked. Of the options of a
    run, --budget and --json go with it.

    \b
    Examples:
      aiperf diff kernels.py:plain kernels.py:tiled --inputs kernels.py:make
      aiperf diff old.py:f new.py:f --inputs new.py:make --budget 10
      aiperf diff --command 'gzip -k -f data' 'zstd -k -f data' --budget 5
      aiperf diff --command 'sort a' 'sort --parallel={n} a' --parameter n=1,2
    """
    if programs:
        from aiperf_core.inline.programs import Commands

        return _programs(Commands(first, second, prepare or ""), parameters, warm_up, inputs, measuring)
    if inputs is None or prepare is not None or parameters or warm_up:
        raise UsageError(
            "Functions need --inputs FILE.py:FUNCTION; --prepare, --parameter and --warm-up go with --command."
        )
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


def _programs(
    commands: "Commands", parameters: tuple[str, ...], warm_up: int, inputs: str | None, measuring: Measuring
) -> int:
    """Compare two commands of the shell, once for each combination of the parameters."""
    from aiperf_core.inline.compared import FLOOR
    from aiperf_core.inline.programs import parameters_of
    from aiperf_core.results.models import Verdict

    if inputs is not None:
        raise UsageError("--inputs goes with functions; a command of --command has its inputs in its text.")
    context = click.get_current_context()
    given = [
        option.opts[-1]
        for option in context.command.params
        if option.name not in _OF_PROGRAMS and context.get_parameter_source(option.name or "") is _ON_COMMAND_LINE
    ]
    if given:
        raise UsageError(
            f"{', '.join(given)}: not with --command, which measures by the wall clock and writes no bundle."
        )
    budget_s = measuring.chosen["budget_s"] or _BUDGET_S
    found = list[tuple[dict[str, str], "Compared"]]()
    for values in parameters_of(parameters, commands):
        compared = commands.with_values(values).compare(warm_up=warm_up, budget_s=budget_s, floor=FLOOR)
        found.append((values, compared))
        if not measuring.as_json:
            click.echo(
                "\n".join(
                    [*filter(None, [" ".join(f"{name}={value}" for name, value in values.items())]), str(compared)]
                )
            )
    if measuring.as_json:
        echo_json([{"parameters": values, **compared.document()} for values, compared in found])
    undecided = any(compared.verdict is Verdict.INCONCLUSIVE for _, compared in found)
    return ExitCode.INCONCLUSIVE if undecided else ExitCode.OK
