"""Options and steps that several commands share."""

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from attrs import fields, frozen

from aiperf_core.devices.device import known_device
from aiperf_core.errors import UsageError
from aiperf_core.executor import known_executor
from aiperf_core.plugins import Plugins
from aiperf_core.results.run_options import TIERS, Declaration, RunOptions, declarations
from aiperf_core.sweep import axes_of, fixed
from aiperf_core.targets import NO_FILTER, InstalledTarget, TargetFilter

if TYPE_CHECKING:
    from aiperf_core.harness.processes.child import ForkServer
    from aiperf_core.harness.run.options import Options
    from aiperf_core.harness.run.planner import Planner

Command = TypeVar("Command", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A range of numbers, as `click.FloatRange`, which also takes NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Raises click's error for a value out of range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


set_option = click.option(
    "--set", "sizes", multiple=True, metavar="NAME=NUMBER", help="Override a size. May be repeated."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")


def _labels(_: click.Context, __: click.Parameter, labels: tuple[str, ...]) -> dict[str, str]:
    """The labels of `--label` by name."""
    found: dict[str, str] = {}
    for name, value in _pairs(labels, "--label takes NAME=VALUE, such as --label branch=main"):
        if name in found:
            raise UsageError(f"--label {name} was given twice; each label has one value.")
        found[name] = value
    return found


def _pairs(texts: tuple[str, ...], rule: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"{rule}; got {text!r}.")
        yield name, value


label_option = click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_labels,
    help="Record a label, such as branch=main. May be repeated.",
)


def size_option(default: str | None = None) -> Callable[[Command], Command]:
    """The option `--size`, the name of a preset. Without a default, each device has its own."""
    about = "Preset of sizes." + ("" if default else " [default: the preset of the device]")
    return click.option("-s", "--size", default=default, show_default=bool(default), metavar="NAME", help=about)


def tier_option(about: str, default: str | None = "quick") -> Callable[[Command], Command]:
    """The option `--tier`."""
    return click.option(
        "-t", "--tier", type=click.Choice(TIERS), default=default, show_default=bool(default), help=about
    )


def targets_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `-k` and `--exclude`, which the command receives as `only`, a `TargetFilter`."""
    options = together(
        click.option(
            "-k",
            "--keyword",
            default="",
            metavar="SUBSTRING",
            help="Only targets with this in the name, tags or summary.",
        ),
        click.option("--exclude", multiple=True, metavar="PATTERN", help="Omit these targets. May be repeated."),
    )

    @wraps(command)
    def called(*arguments: Any, keyword: str, exclude: tuple[str, ...], **values: Any) -> Any:
        return command(*arguments, only=TargetFilter(keyword, exclude), **values)

    return options(called)


def installed(plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter) -> list[InstalledTarget]:
    """The chosen targets of a command that takes all of them without a pattern; none if none are installed."""
    chosen = patterns or (("all",) if plugins.targets else ())
    return [one.target for one in plugins.select(chosen, only)]


def patterns_or_all(patterns: tuple[str, ...], only: TargetFilter) -> tuple[str, ...]:
    """The patterns of a command that needs some; all targets if `-k` or `--exclude` is given alone."""
    if not patterns and only == NO_FILTER:
        context = click.get_current_context()
        raise UsageError(
            "Missing argument 'PATTERN...': a target, a group, a tag or 'all'. The targets: aiperf list. "
            f"See: {context.command_path} --help"
        )
    return patterns or ("all",)


def device_option(about: str, default: str) -> Callable[[Command], Command]:
    """The option `--device`. It accepts the devices of all plugins."""
    about = f"{about}: cpu, cuda, or a plugin's device. [default: {default}]"
    return click.option("-d", "--device", metavar="NAME", callback=_known, help=about)


def out_option(what: str = "results", default: str = "a new folder in artifacts/runs") -> Callable[[Command], Command]:
    """The option `--out FOLDER` of a command that writes a bundle or other files."""
    about = f"Write the {what} to this folder. [default: {default}]"
    return click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help=about)


def json_option(what: str = "a JSON object") -> Callable[[Command], Command]:
    """The option `--json`, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what}.")


def seconds_option(name: str, about: str, default: float | None = None) -> Callable[[Command], Command]:
    """An option that takes a positive number of seconds."""
    shown = default is not None
    return click.option(
        name, type=float, default=default, show_default=shown, metavar="SECONDS", callback=_seconds, help=about
    )


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order of the help text."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def run_option(option: Declaration, default: Any = None, **words: str) -> Callable[[Command], Command]:
    """A declared option of a run. `words` fill in its help."""
    given: dict[str, Any] = {"help": option.help.format(**words) if words else option.help, "default": default}
    match option.kind:
        case "choice":
            given |= {"type": click.Choice(option.choices), "show_default": True}
        case "seconds":
            given |= {"type": float, "show_default": default is not None, "metavar": "SECONDS", "callback": _seconds}
        case "count":
            given |= {"type": click.IntRange(1), "metavar": "COUNT"}
        case "switch":
            given = {"help": given["help"], "is_flag": True}
        case "name":
            given |= {"metavar": "NAME"}
        case "device" | "executor":
            given |= {"metavar": "NAME", "callback": _known}
    return click.option(option.key, *option.flags, **given)


def executor_option() -> Callable[[Command], Command]:
    """The option `--executor`. It accepts the executors of all plugins."""
    return run_option(next(option for option in declarations() if option.kind == "executor"))


@frozen(kw_only=True)
class Measuring:
    """The values of `measuring_options`.

    chosen: the declared options of the run, by their keys; None takes the default.
    """

    chosen: dict[str, Any]
    labels: dict[str, str]
    out: Path | None
    as_json: bool
    quiet: bool

    def options(self, **more: Any) -> "Options":
        """The options of the run, with those that only one command has."""
        from aiperf_core.harness.run.options import Options

        return Options(**{key: value for key, value in self.chosen.items() if value is not None}, **more)


def measuring_options(
    timeout_s: float, scope: str, budget: str = "3, 30 or 120 by tier"
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The options of a command that measures, which it receives as `measuring`.

    scope: what the budget is for, as in ' per target'.
    budget: the default of the budget in seconds, as the help says it.
    """
    chosen = [option for option in declarations() if option.kind != "executor"]
    usual = RunOptions(timeout_s=timeout_s)
    defaults = {option.key: getattr(usual, option.key) or None for option in chosen}
    options = together(
        *(run_option(option, defaults[option.key], scope=scope, budget=budget) for option in chosen),
        label_option,
        out_option(),
        json_option("the results as one JSON document"),
        quiet_option,
    )

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def called(*arguments: Any, **values: Any) -> int:
            keys = [option.key for option in chosen]
            own = {one.name: values.pop(one.name) for one in fields(Measuring) if one.name != "chosen"}
            measuring = Measuring(chosen={key: values.pop(key) for key in keys}, **own)
            return command(*arguments, measuring=measuring, **values)

        return options(called)

    return decorate


def sizes_of(sizes: tuple[str, ...]) -> dict[str, float]:
    """The numbers of `--set`, for a command that measures at a single point. Raises `UsageError`."""
    axes = axes_of(sizes)
    for axis in axes:
        if len(axis.values) > 1:
            got = f"got {len(axis.values)} values"
            raise UsageError(f"--set {axis.name} takes a single number here; {got}. For a sweep: aiperf run")
    return fixed(axes)


def server_ahead() -> "ForkServer":
    """Start the fork server first: it imports torch while the command imports the rest. It ends with the command."""
    from aiperf_core.harness.processes.child import ForkServer

    return click.get_current_context().with_resource(ForkServer())


@contextmanager
def scratch_planner(options: "Options") -> "Iterator[Planner]":
    """A planner with a temporary folder, which is removed at the end."""
    from tempfile import TemporaryDirectory

    from aiperf_core.harness.run.planner import Planner

    scratch = TemporaryDirectory(prefix="aiperf-", ignore_cleanup_errors=True)
    with scratch as folder, Planner(options, Path(folder)) as planner:
        yield planner


def warn_of_skipped(plugins: Plugins) -> None:
    """Name the plugins that were skipped, on standard error."""
    for skipped in plugins.set_aside:
        click.echo(str(skipped), err=True)


def warn_of_contradiction(target: InstalledTarget, goal: str, devices: Collection[str]) -> None:
    """Say on standard error where plugin.py contradicts the target's file."""
    if contradiction := target.contradicts(goal, devices):
        click.echo(f"{target.name}: {contradiction}. Correct plugin.py: aiperf lint --fix {target.name}", err=True)


def echo_json(document: object) -> None:
    """Print a document of plain values as JSON."""
    import json

    click.echo(json.dumps(document, indent=2))


def _known(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    if name is not None and option.name == "device":
        known_device(name, context.obj.known_devices)
    elif name is not None:
        known_executor(name, context.obj.known_executors)
    return name


def _seconds(_: click.Context, option: click.Parameter, seconds: float | None) -> float | None:
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"{option.opts[0]} takes a number of seconds above 0; got {seconds:g}.")
    return seconds
