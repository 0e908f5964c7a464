"""The options that commands which measure have in common."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aiperf_core.devices.device import known_device
from aiperf_core.errors import UsageError
from aiperf_core.executor import known_executor

if TYPE_CHECKING:
    from aiperf_core.harness.processes.child import ForkServer

Command = TypeVar("Command", bound=Callable[..., Any])


def server_ahead() -> "ForkServer":
    """Start what imports torch for a command, to be done with it when the command has imported all else; it ends with it."""
    from aiperf_core.harness.processes.child import ForkServer

    return click.get_current_context().with_resource(ForkServer())


def measuring_options(timeout_s: float, scope: str) -> Callable[[Command], Command]:
    """Options of a command that measures; `scope` is what a budget is for, as in 'a target'."""
    options = (
        device_option("Where to run. [default: the GPU, if it helps]"),
        click.option("--size", metavar="NAME", help="A preset of sizes. [default: the one named after the device]"),
        click.option(
            "--tier",
            type=click.Choice(("quick", "standard", "audit")),
            default="quick",
            show_default=True,
            help="1, 3 or 10 rounds of fresh processes; the latter two with the baseline against itself.",
        ),
        click.option(
            "--policy",
            type=click.Choice(("strict", "standard", "lenient")),
            default="standard",
            show_default=True,
            help="Which findings make a row invalid, and which only warn.",
        ),
        click.option(
            "--budget",
            type=float,
            metavar="SECONDS",
            callback=_positive,
            help=f"Sampling time{scope}. [default: 3, 30 or 120 by tier]",
        ),
        click.option(
            "--timeout",
            type=float,
            default=timeout_s,
            show_default=True,
            metavar="SECONDS",
            callback=_positive,
            help="Limit for one call.",
        ),
        click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Write the results there."),
        click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON document."),
        click.option("--quiet", is_flag=True, help="Show no progress."),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def device_option(about: str) -> Callable[[Command], Command]:
    """The option `--device`, which takes the devices of all plugins."""
    return click.option("--device", metavar="NAME", callback=_device, help=f"{about} cpu, cuda, or what a plugin adds.")


def executor_option() -> Callable[[Command], Command]:
    """The option `--executor`, which takes the executors of all plugins."""
    return click.option(
        "--executor",
        metavar="NAME",
        callback=_executor,
        help="Who starts the workers: here, torchrun, or what a plugin adds. [default: torchrun for ranks, else here]",
    )


def _executor(context: click.Context, _: click.Parameter, name: str | None) -> str | None:
    """An executor that some plugin provides."""
    if name is not None:
        known_executor(name, context.obj.known_executors)
    return name


def _device(context: click.Context, _: click.Parameter, name: str | None) -> str | None:
    """A device that some plugin provides."""
    if name is not None:
        known_device(name, context.obj.known_devices)
    return name


def _positive(_: click.Context, option: click.Parameter, seconds: float | None) -> float | None:
    """The value of an option in seconds, which must be above 0."""
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"{option.opts[0]} takes a number of seconds above 0; got {seconds:g}.")
    return seconds


def sizes_of(sizes: tuple[str, ...]) -> dict[str, float]:
    """The numbers of `--set`."""
    params = {}
    for text in sizes:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--set takes NAME=NUMBER, such as --set n=1e6; got {text!r}.")
        params[name] = _number(name, value)
    return params


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"--set {name} takes a number, such as 4096 or 1e6; got {text!r}.") from None
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"--set {name} takes a number from 0; got {text!r}.")
    return value
