"""Commands with two levels of help: the everyday options, and all of them in groups by `--help-all`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

EVERYDAY = "Options"


class Leveled(click.Command):
    """A command whose `--help` shows the everyday options.

    groups: the names of parameters by heading. Those of `EVERYDAY` are in `--help`; a parameter that no group names is
        under the last heading.
    """

    def __init__(self, *arguments: Any, groups: Mapping[str, Sequence[str]], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.groups = groups
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=self._show_all,
                help="Show all options, by group, and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the everyday options, and how to see the others."""
        everyday = {*self.groups[EVERYDAY], "help_all"}
        shown = [one for one in self.get_params(ctx) if one.name in everyday or "--help" in one.opts]
        _write(ctx, formatter, EVERYDAY, shown)

    def whole_help(self, ctx: click.Context) -> str:
        """The help with all options by group."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        *_, last = self.groups
        group_of = {name: heading for heading, names in self.groups.items() for name in names}
        for heading in self.groups:
            params = [one for one in self.get_params(ctx) if group_of.get(str(one.name), last) == heading]
            _write(ctx, formatter, heading, params)
        return formatter.getvalue().rstrip("\n")

    def _show_all(self, ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked and not ctx.resilient_parsing:
            click.echo(self.whole_help(ctx))
            ctx.exit()


def _write(ctx: click.Context, formatter: click.HelpFormatter, heading: str, params: Sequence[click.Parameter]) -> None:
    options = (one for one in params if isinstance(one, click.Option))
    records = [record for one in options if (record := one.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(heading):
            formatter.write_dl(records)
