"""`aiperf analyze NAME`: a command for each analysis that a plugin contributes."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.contributions import Installed
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import nearest

if TYPE_CHECKING:
    from aiperf_analysis.selection import Selection
    from aiperf_core.analysis import Analysis
    from aiperf_core.report.result import Result

DEFAULT = "overview"
_WIDEST_CHOICE = 60  # characters of a list of choices beside the name of its option
# What the help shows for a field of these types that names no other word.
_METAVARS: dict[type, str] = {int: "COUNT", float: "NUMBER", str: "NAME", Path: "FILE", tuple: "NAME,..."}


class Analyses(click.Group):
    """The group `analyze`. Without a name it is the overview."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the analyses."""
        return sorted(_installed(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of an analysis; its module is imported when it is called or its help is shown."""
        found = _installed(ctx).get(cmd_name)
        return command_of(found.record) if found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the analyses with their summaries. Nothing is imported for it."""
        rows = [(name, found.record.summary) for name, found in sorted(_installed(ctx).items())]
        with formatter.section("Analyses"):
            formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Call the overview where the first argument is no analysis."""
        known = _installed(ctx)
        if not args or (args[0] not in known and args[0] not in ctx.help_option_names):
            if args and not args[0].startswith("-") and "/" not in args[0] and not Path(args[0]).exists():
                raise UsageError(
                    f"{args[0]!r} is neither an analysis nor a folder.{nearest(args[0], sorted(known))} Analyses: "
                    f"{', '.join(sorted(known))}."
                )
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


def _installed(ctx: click.Context) -> "dict[str, Installed[Analysis]]":
    plugins = ctx.find_object(Plugins)
    return dict(plugins.analyses) if plugins else {}


@click.command("analyze", cls=Analyses)
def analyze() -> None:
    """Analyze stored results. Without a name: an overview of all bundles in artifacts/runs.

    Rows that are not believed never enter a figure; they are listed with the reason. Every figure has its interval.

    \b
    Examples:
      aiperf analyze
      aiperf analyze leaderboard latest
      aiperf analyze history --target ch07.* --out history.html
    """


class AnalysisCommand(click.Command):
    """The command of an analysis. Its options come from the analysis, whose module is imported only when needed."""

    def __init__(self, record: "Analysis") -> None:
        self.record = record
        super().__init__(record.name, callback=_run(record), short_help=record.summary)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the common options and those of the analysis."""
        if not self.params:
            function = self.record.resolve()
            self.help = _help(function, self.record)
            self.params = [*_common(function), *_own(function)]
        return super().get_params(ctx)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help, with the docstring of the analysis."""
        self.get_params(ctx)
        return super().get_help(ctx)

    def make_parser(self, ctx: click.Context) -> Any:
        """Return the parser, which needs the parameters."""
        self.get_params(ctx)
        return super().make_parser(ctx)


def command_of(record: "Analysis") -> click.Command:
    """The command of an analysis."""
    return AnalysisCommand(record)


def _help(function: Callable[..., Any], record: "Analysis") -> str:
    import inspect

    return inspect.getdoc(function) or record.summary


def _common(function: Callable[..., Any]) -> list[click.Parameter]:
    """The options of every analysis: what it reads, and how it is shown."""
    from aiperf_core.analysis_options import of_files

    if of_files(function):
        files = click.Argument(["files"], nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
        return [files, *_shown_as()]
    return [*_read_from(), *_shown_as()]


def _read_from() -> list[click.Parameter]:
    @click.command()
    @click.argument("bundles", nargs=-1, metavar="[BUNDLE]...")
    @click.option(
        "--in",
        "folder",
        type=click.Path(path_type=Path),
        default=Path("artifacts/runs"),
        show_default=True,
        metavar="FOLDER",
        help="The folder of the bundles.",
    )
    @click.option("--db", metavar="URL", help="Read from a store instead of folders; see aiperf db.")
    @click.option("--target", "targets", multiple=True, metavar="PATTERN", help="Only these targets; may be repeated.")
    @click.option("--class", "hardware", metavar="PATTERN", help="Only these kinds of machine, such as nvidia-h200-x1.")
    @click.option("-d", "--device", metavar="DEVICE", help="Only targets that ran on this device.")
    @click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Only runs with this label.")
    def taken() -> None:
        pass

    return taken.params


def _shown_as() -> list[click.Parameter]:
    @click.command()
    @result_file_option
    @json_option("the result as one JSON document")
    def taken() -> None:
        pass

    return taken.params


def _own(function: Callable[..., Any]) -> list[click.Parameter]:
    """The options of an analysis, from the fields of its class of options."""
    import attrs

    from aiperf_core.analysis_options import CHOICES, HELP, METAVAR, kind_of, options_of

    found: list[click.Parameter] = []
    options = options_of(function)
    for one in attrs.fields(options):
        kind = kind_of(options, one.name)
        name = f"--{one.name.replace('_', '-')}"
        default = "" if one.default in (None, (), "", False) else f" [default: {_shown(one.default)}]"
        choices = one.metadata.get(CHOICES, ())
        words = f"[{'|'.join(choices)}]" if choices else ""
        # A long list has no room beside the option's name.
        beside = kind is not tuple and len(words) <= _WIDEST_CHOICE
        accepted = f" Accepted: {', '.join(choices)}." if choices and not beside else ""
        text = f"{one.metadata.get(HELP, '')}{accepted}{default}"
        if kind is bool:
            found.append(click.Option([name], is_flag=True, default=None, help=text))
        else:
            metavar = (words if beside else "") or one.metadata.get(METAVAR) or _METAVARS[kind]
            found.append(click.Option([name], multiple=kind is tuple, metavar=metavar, help=text))
    return found


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _run(record: "Analysis") -> Callable[..., ExitCode]:
    def callback(**values: Any) -> ExitCode:
        return run(record.resolve(), values)

    return callback


def run(function: Callable[..., Any], values: dict[str, Any]) -> ExitCode:
    """Read the selection, call the analysis and show its result; the exit code is the result's."""
    from aiperf_analysis.sizes import analyzed
    from aiperf_core.analysis_options import of_files

    options = options_from(function, values)
    if of_files(function):
        return show_result(function(list(values["files"]), options), values["out"], as_json=values["as_json"])
    selection = selection_of(values)
    return output_of(values, selection, lambda: analyzed(function, selection, options))


def options_from(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    """The options of an analysis from the parameters of its command. Raises UsageError with what is accepted."""
    import attrs

    from aiperf_core.analysis_options import options_of, value_of

    options = options_of(function)
    given = {}
    for one in attrs.fields(options):
        value = values.get(one.name)
        if value is None or value == ():
            continue
        given[one.name] = value if isinstance(value, bool) else value_of(options, one, value)
    return options(**given)


def selection_of(values: dict[str, Any]) -> "Selection":
    """The rows that the common options select, from bundles or from a store."""
    labels = labels_of(values.get("labels") or ())
    filters: dict[str, Any] = {
        "targets": values.get("targets") or (),
        "hardware": values.get("hardware"),
        "device": values.get("device"),
        "labels": labels,
    }
    if values.get("db"):
        from aiperf_analysis.store.reading import select as select_stored

        if values.get("bundles"):
            raise UsageError("--db reads from a store; give no bundles with it, or add them: aiperf db add BUNDLE")
        return select_stored(values["db"], **filters)
    from aiperf_analysis.selection import select

    return select(values.get("bundles") or (), folder=values.get("folder") or Path("artifacts/runs"), **filters)


def labels_of(texts: tuple[str, ...]) -> dict[str, str]:
    """The labels of `--label`. Raises UsageError for a text without a name or a value."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--label takes NAME=VALUE, such as --label branch=main; got {text!r}.")
        found[name] = value
    return found


def output_of(values: dict[str, Any], selection: "Selection", analyse: Callable[[], "Result"]) -> ExitCode:
    """Show what is computed from a selection. Changed bundles are named; the exit code is then 3, of errors too."""
    from attrs import evolve

    try:
        result = analyse()
    except AiperfError as error:
        if selection.changed:
            error.exit_code = ExitCode.INVALID
            _name(one.reason for one in selection.changed if one.reason.rstrip(".") not in str(error))
        raise
    if selection.changed:
        result = evolve(result, status="distrusted")
    code = show_result(result, values["out"], as_json=values["as_json"])
    _name(one.reason for one in selection.changed)
    return code


def _name(changed: Iterable[str]) -> None:
    from aiperf_core.names import words

    for one in changed:
        click.echo(f"aiperf: {words(one)}", err=True)
