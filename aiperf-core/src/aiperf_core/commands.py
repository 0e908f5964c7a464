"""Command: a subcommand of `aiperf`, known by name and summary, and imported only when it is called."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import Attribute, field, frozen

from aiperf_core.contributed import is_path, named, one_line, resolve

if TYPE_CHECKING:
    import click


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.replace("-", "").isalnum() and not value.startswith("-")


@frozen
class Command:
    """A subcommand.

    `load` is where its click command lives: `"package.module:attribute"`, or a callable without arguments that returns
    it. It is looked up when the command is called or asked for its help, so `aiperf list` does not pay for `aiperf run`.
    A command that breaks a rule below raises `ValueError`, which sets its plugin aside.
    """

    name: str = field(validator=named("command", _is_name, "letters, digits and hyphens can, such as 'compare'"))
    summary: str = field(validator=one_line("command"))
    load: "str | Callable[[], click.Command]" = field()

    @load.validator
    def _check_load(self, _: "Attribute[str | Callable[[], click.Command]]", value: object) -> None:
        if not callable(value) and not is_path(value):
            raise ValueError(f"command {self.name!r} needs load='module:attribute' or a callable; found {value!r}")

    def resolve(self) -> "click.Command":
        """Import the click command. Raises whatever the import raises, and `TypeError` when it is no click command."""
        import click

        found = resolve(self.load) if isinstance(self.load, str) else self.load()
        if not isinstance(found, click.Command):
            raise TypeError(f"a click command was expected; found {type(found).__name__}")
        return found
