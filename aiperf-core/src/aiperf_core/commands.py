"""Command: a subcommand of `aiperf`, known by name and summary, and imported only when it is called."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from attrs import Attribute, field, frozen

if TYPE_CHECKING:
    import click


@frozen
class Command:
    """A subcommand.

    `load` is where its click command lives: `"package.module:attribute"`, or a callable without arguments that returns
    it. It is looked up when the command is called or asked for its help, so `aiperf list` does not pay for `aiperf run`.
    A command that breaks a rule below raises `ValueError`, which sets its plugin aside.
    """

    name: str = field()
    summary: str = field()
    load: "str | Callable[[], click.Command]" = field()

    @name.validator
    def _check_name(self, _: "Attribute[str]", value: object) -> None:
        if not isinstance(value, str) or not value.replace("-", "").isalnum() or value.startswith("-"):
            raise ValueError(f"{value!r} cannot name a command: letters, digits and hyphens can, such as 'compare'")

    @summary.validator
    def _check_summary(self, _: "Attribute[str]", value: object) -> None:
        if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
            raise ValueError(f"command {self.name!r} needs a summary of one line; found {value!r}")

    @load.validator
    def _check_load(self, _: "Attribute[str | Callable[[], click.Command]]", value: object) -> None:
        if not callable(value) and not (isinstance(value, str) and all(value.partition(":"))):
            raise ValueError(f"command {self.name!r} needs load='module:attribute' or a callable; found {value!r}")

    def resolve(self) -> "click.Command":
        """Import the click command. Raises whatever the import raises, and `TypeError` when it is no click command."""
        import click

        if isinstance(self.load, str):
            module, _, attribute = self.load.partition(":")
            found = getattr(import_module(module), attribute)
        else:
            found = self.load()
        if not isinstance(found, click.Command):
            raise TypeError(f"a click command was expected; found {type(found).__name__}")
        return found
