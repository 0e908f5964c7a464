"""A group of subcommands that are imported when they are called, for packages whose command has several."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """Imports a subcommand when it is called, so that other commands do not wait for its imports.

    modules: the modules of the subcommands by name, in the order of use. Each has its subcommand as `command`.
    """

    def __init__(self, *arguments: Any, modules: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of use."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand."""
        if cmd_name not in self.modules:
            return None
        found: click.Command = importlib.import_module(self.modules[cmd_name]).command
        return found
