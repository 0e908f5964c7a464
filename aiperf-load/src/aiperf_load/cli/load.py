"""`aiperf load`: the group of its subcommands."""

import click

COMMANDS = ("run", "sweep", "show", "serve")


class Group(click.Group):
    """Imports a subcommand when it is called, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand."""
        import importlib

        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"aiperf_load.cli.{cmd_name}").command
        return found


@click.command("load", cls=Group)
def load() -> None:
    """Load an inference server, and measure latency and goodput.

    Requests arrive at times drawn before the start. Latency counts from these times, so that a slow server cannot delay
    the load.
    """
