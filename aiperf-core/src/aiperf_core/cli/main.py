"""The command `aiperf`. Its subcommands come from plugins, and are imported when they are called."""

import errno
import os
import platform
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli import output
from aiperf_core.commands import SECTIONS, Command
from aiperf_core.errors import AiperfError, ExitCode, TorchMissingError, UsageError, is_torch_missing
from aiperf_core.names import path_words, words
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.targets import from_a_clone, nearest
from aiperf_core.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The exit code of a program that Ctrl-C ended: 128 + SIGINT.
INTERRUPTED = 130
# Commands that the core names in its texts, and the packages `aiperf-...` that they come with.
_OF_PACKAGES = {"selftest": "redteam", "explain": "analysis", "learn": "learn"}
# What is wrong with a path itself, wherever a command meets it first.
_OF_A_PATH = {errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EROFS}


class Shell(click.Group):
    """The group `aiperf`. A subcommand receives the loaded `Plugins` by `@click.pass_obj`, and may return an exit code.

    A handled error is printed as one paragraph on stderr. Any other exception is a bug and keeps its traceback.
    """

    def __init__(self, plugins: Plugins) -> None:
        super().__init__(
            name="aiperf",
            help="Run benchmarks of GPU and AI-systems work whose numbers can be believed.",
            context_settings={"help_option_names": ["-h", "--help"], "obj": plugins},
            callback=_first_screen,
            invoke_without_command=True,
            subcommand_metavar="COMMAND ...",
        )
        self.params.append(
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_version,
                help="Show the version.",
            )
        )
        self.plugins = plugins

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands, in the order of their contribution."""
        return list(self.plugins.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand. If that of another distribution cannot be imported, the error names the distribution."""
        installed = self.plugins.commands.get(cmd_name)
        if installed is None:
            return None
        try:
            command = installed.record.resolve()
        except Exception as error:
            if ctx.resilient_parsing:
                # Shell completion cannot show an error; the command itself will.
                return None
            if installed.distribution == "aiperf-core":
                raise
            owner = f"{installed.distribution} {installed.version}"
            cause = f"{type(error).__name__}: {error}"
            raise AiperfError(f"'{cmd_name}' of plugin {owner} cannot be loaded: {cause}") from error
        if ctx.resilient_parsing:
            from aiperf_core.cli.completion import teach

            teach(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Complete subcommands, without importing them, and options."""
        from click.shell_completion import CompletionItem

        items = [CompletionItem(name, help=said) for name, said in self._summaries() if name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand, or suggest a similar name."""
        name = args[0]
        if name not in self.plugins.commands and not name.startswith("-") and not ctx.resilient_parsing:
            skipped = " Plugins were skipped: aiperf plugins" if self.plugins.set_aside else ""
            if group := _OF_PACKAGES.get(name):
                raise UsageError(
                    f"{name!r} is not installed. It comes with the package aiperf-{group}. Install it, "
                    f"{from_a_clone(group)}{skipped}"
                )
            hint = nearest(name, self.plugins.commands) or " All commands: aiperf help --all"
            raise UsageError(f"{name!r} is not a command.{hint}{skipped}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the everyday subcommands with their summaries by section, without importing them."""
        every = [installed.record for installed in self.plugins.commands.values()]
        everyday = [command for command in every if command.everyday]
        self._write_commands(everyday or every, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write how to see the other subcommands."""
        if "help" in self.plugins.commands:
            formatter.write_paragraph()
            formatter.write_text(f"All {len(self.plugins.commands)} commands: aiperf help --all")

    def whole_help(self, ctx: click.Context) -> str:
        """The help with every subcommand."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)
        self._write_commands([installed.record for installed in self.plugins.commands.values()], formatter)
        return formatter.getvalue().rstrip("\n")

    @staticmethod
    def _write_commands(commands: Sequence[Command], formatter: click.HelpFormatter) -> None:
        # Without a common width, each section would have a column of its own.
        width = max((len(command.name) for command in commands), default=0)
        for section in SECTIONS:
            rows = [(one.name.ljust(width), one.summary) for one in commands if one.section == section]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)

    def _summaries(self) -> list[tuple[str, str]]:
        return [(name, installed.record.summary) for name, installed in self.plugins.commands.items()]

    def main(  # type: ignore[override]  # click writes the same as overloads
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """Run the command line and exit, with the errors and exit codes of aiperf."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        try:
            returned = super().main(args, standalone_mode=False, **extra)
            code = returned if isinstance(returned, int) else ExitCode.OK
        except click.exceptions.NoArgsIsHelpError as no_arguments:
            # A group without a subcommand shows its help, as aiperf itself does.
            click.echo(no_arguments.format_message())
            code = ExitCode.OK
        except (AiperfError, click.ClickException, click.Abort, KeyboardInterrupt) as error:
            code = _report(error)
        except ModuleNotFoundError as error:
            if not is_torch_missing(error):
                raise
            code = _report(TorchMissingError())
        except OSError as error:
            if error.errno not in _OF_A_PATH or not isinstance(error.filename, str):
                raise
            code = _report(UsageError(f"'{path_words(error.filename)}' cannot be used: {error.strerror}."))
        except output.OutputLostError:
            code = ExitCode.OK
        sys.exit(output.final_code(int(code)))


def main() -> None:
    """Entry point of the console scripts and of `python -m aiperf_core`."""
    output.hold_streams()
    called_as = os.path.basename(sys.argv[0])
    try:
        shell = Shell(load_plugins(without=_deadly_plugins()))
    except KeyboardInterrupt as interrupt:
        # The user ends a plugin that blocks in this way.
        if interrupt.args:
            click.echo(f"aiperf: interrupted {interrupt}. To check plugins: aiperf doctor", err=True)
        sys.exit(INTERRUPTED)
    shell.main(prog_name=called_as if called_as == "aiperf-bench" else "aiperf")


def _deadly_plugins() -> dict[tuple[str, str], str]:
    """The plugins to skip. Only `aiperf doctor`, which must always work, looks for them: loading twice takes time."""
    if sys.argv[1:2] != ["doctor"]:
        return {}
    from aiperf_core.trial import deadly_plugins

    return deadly_plugins()


def _report(error: BaseException) -> int:
    """Print the error as one paragraph, and return the exit code."""
    if isinstance(error, click.exceptions.Abort):
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else ExitCode.FAILED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    message, code = str(error), getattr(error, "exit_code", ExitCode.FAILED)
    if isinstance(error, click.ClickException):
        message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = (
            f"{message if message.endswith('?') else message.rstrip('.') + '.'} See: {error.ctx.command_path} --help"
        )

    # A message may quote an untrusted file.
    lines = [words(line) for line in message.splitlines()]
    lines = ["aiperf: " + "".join(lines[:1]), *lines[1:]]
    if sys.stderr.isatty():
        # A terminal breaks lines within words.
        width = shutil.get_terminal_size().columns
        lines = [textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines]
    click.echo("\n".join(lines), err=True)
    return int(code)


@click.pass_context
def _first_screen(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        from aiperf_core.cli.first_screen import first_screen

        click.echo(first_screen(ctx.obj))


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    others = {f"{one.distribution} {one.version}" for one in ctx.obj.loaded if one.distribution != "aiperf-core"}
    plugins = ", ".join(sorted(others)) or "none"
    click.echo(f"aiperf {__version__} (Python {platform.python_version()}, plugins: {plugins})")
    ctx.exit()
