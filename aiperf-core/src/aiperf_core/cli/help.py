"""`aiperf help`: the help of a command, or of all commands."""

import click

from aiperf_core.cli.leveled import Leveled
from aiperf_core.cli.main import Shell
from aiperf_core.errors import UsageError


@click.command("help")
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.option("--all", "everything", is_flag=True, help="List every command, and every option of COMMAND.")
@click.pass_context
def help_command(context: click.Context, names: tuple[str, ...], everything: bool) -> None:
    """Show the help of aiperf, or of a command.

    \b
    Examples:
      aiperf help --all
      aiperf help run
    """
    parent = context.find_root()
    command = parent.command
    for name in names:
        found = command.get_command(parent, name) if isinstance(command, click.Group) else None
        if found is None:
            raise UsageError(f"{' '.join(names)!r} is not a command. All commands: aiperf help --all")
        parent, command = click.Context(found, info_name=name, parent=parent, obj=context.obj), found
    click.echo(
        command.whole_help(parent) if everything and isinstance(command, Shell | Leveled) else command.get_help(parent)
    )
