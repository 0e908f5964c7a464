"""Whether output is coloured: `--color`, NO_COLOR, and whether the stream is a terminal.

Without rich: its import would take a third of the time of `aiperf list`.
"""

import os
from typing import TextIO

import click

CHOICES = ("auto", "always", "never")
_KEY = "aiperf_core.color"


def _keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta[_KEY] = value


# The option `--color` of a command that prints results; `has_color` reads it.
color_option = click.option(
    "--color",
    type=click.Choice(CHOICES),
    expose_value=False,
    is_eager=True,
    callback=_keep,
    help="Colour the output. auto: in a terminal, unless NO_COLOR is set. [default: auto]",
)


def has_color(stream: TextIO) -> bool:
    """Whether output to a stream has colours. An explicit `--color` is stronger than NO_COLOR."""
    context = click.get_current_context(silent=True)
    chosen = context.meta.get(_KEY, "auto") if context else "auto"
    if chosen != "auto":
        return bool(chosen == "always")
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
