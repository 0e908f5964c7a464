"""`aiperf power`: the analysis of energy, and `aiperf power watch`."""

import contextlib
import sys
from pathlib import Path

import click

from aiperf_core.cli.measuring import FiniteRange, json_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode, UsageError

ANALYSIS = "power"


class Power(click.Group):
    """The group `power`. Without `watch` it is `aiperf analyze power`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return `watch`, or the command of the analysis."""
        if cmd_name != ANALYSIS:
            return super().get_command(ctx, cmd_name)
        from aiperf_analysis.cli.analyze import command_of
        from aiperf_core.plugins import Plugins

        plugins = ctx.find_object(Plugins)
        found = plugins.analyses.get(ANALYSIS) if plugins else None
        return command_of(found.record) if found else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Call the analysis unless the first argument is `watch` or asks for help."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [ANALYSIS, *args]
        return super().parse_args(ctx, args)


@click.group("power", cls=Power)
def power() -> None:
    """Analyze the energy of stored results, as aiperf analyze power does; or watch the power of a command."""


@power.command("watch", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--gpu", "gpus", type=click.IntRange(0), multiple=True, metavar="NUMBER",
              help="Only this GPU, as CUDA numbers it. May be repeated. [default: all]")  # fmt: skip
@click.option("--rate", type=FiniteRange(0.1, 100), default=10.0, show_default=True, metavar="HZ",
              help="Samples a second.")  # fmt: skip
@result_file_option
@json_option("the result as one JSON document, on standard error")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def watch(gpus: tuple[int, ...], rate: float, out: Path | None, as_json: bool, command: tuple[str, ...]) -> int:
    """Measure the energy of a command.

    The sensors are those of this machine: NVML of GPUs, RAPL of processors. The energy counter is preferred to the
    integrated power, and their difference is shown. The report goes to standard error, and standard output is the
    command's. The exit code is the command's; without a sensor the command is not started, and the exit code is 1.

    \b
    Examples:
      aiperf power watch -- python train.py
    """
    from aiperf_analysis import power_watch

    if command[0] == "--":
        command = command[1:]
    if not command:
        raise UsageError("give a command: aiperf power watch CMD")
    with power_watch.sensors(gpus or None) as (found, lacking):
        if not found:
            raise power_watch.no_sensor(lacking)
        watched = power_watch.watch(command, found, rate_hz=rate)
    watched.lacking.update(lacking)
    with contextlib.redirect_stdout(sys.stderr):
        show_result(power_watch.result(command, watched), out, as_json=as_json)
    # As a program that Ctrl-C ended.
    return 128 + 2 if watched.interrupted else watched.exit_code or ExitCode.OK
