"""A subcommand of `aiperf`: name, summary, and the import path of its click command."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import Attribute, field, frozen

from aiperf_core.contributed import is_path, named, one_line, resolve

if TYPE_CHECKING:
    import click

# The headings of `aiperf --help`, in their order. The last is for commands of packages.
SECTIONS = ("Measure", "Look at results", "Write benchmarks", "Check", "This installation", "Packages")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.replace("-", "").isalnum() and not value.startswith("-")


@frozen
class Command:
    """A subcommand. An invalid value raises `ValueError`, and its plugin is skipped.

    load: `"package.module:attribute"` of a click command, or a callable without arguments that returns the command. It
    is resolved only when the command or its help is called, which keeps other commands fast.
    section: the heading in `aiperf --help`, from `SECTIONS`.
    everyday: whether `aiperf --help` shows it; `aiperf help --all` shows every command.
    """

    name: str = field(validator=named("command", _is_name, "use letters, digits and hyphens, such as 'compare'"))
    summary: str = field(validator=one_line("command"))
    load: "str | Callable[[], click.Command]" = field()
    section: str = field(default=SECTIONS[-1], kw_only=True)
    everyday: bool = field(default=False, kw_only=True)

    @load.validator
    def _check_load(self, _: "Attribute[str | Callable[[], click.Command]]", value: object) -> None:
        if not callable(value) and not is_path(value):
            raise ValueError(f"command {self.name!r} needs load='module:attribute' or a callable; found {value!r}")

    @section.validator
    def _check_section(self, _: "Attribute[str]", value: object) -> None:
        if value not in SECTIONS:
            accepted = ", ".join(map(repr, SECTIONS))
            raise ValueError(f"{value!r} is not a section for command {self.name!r}; accepted: {accepted}")

    def resolve(self) -> "click.Command":
        """Import the click command. Raises `TypeError` if it is no click command, and any error of the import."""
        import click

        found = resolve(self.load) if isinstance(self.load, str) else self.load()
        if not isinstance(found, click.Command):
            raise TypeError(f"a click command was expected; found {type(found).__name__}")
        return found
