"""The options `--format` and `--out` of commands that write a file: its name tells the format."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from aiperf_core.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])
# Of formats whose files do not end in their name.
ENDINGS = {"markdown": "md"}


def file_options(
    formats: Sequence[str], about: str, default: str | None = None, otherwise_to: str = "standard output"
) -> Callable[[Command], Command]:
    """The options `--format`, passed as `kind`, and `--out`. `default` is the format without `--out`, if any."""

    def chosen(context: click.Context, _: click.Parameter, value: str | None) -> str:
        out: Path | None = context.params.get("out")
        by_ending = {f".{ENDINGS.get(one, one)}": one for one in formats}
        found = value or by_ending.get(out.suffix.lower() if out else "", default)
        if found is None:
            raise UsageError(
                f"the format is missing; accepted: --format {', '.join(formats)}, or --out with a name that ends in "
                f"{', '.join(by_ending)}. See: {context.command_path} --help"
            )
        return found

    otherwise = f", else {default}" if default else ""
    kind = click.option(
        "--format",
        "kind",
        type=click.Choice(tuple(formats)),
        callback=chosen,
        help=f"{about} [default: by the end of --out{otherwise}]",
    )
    out = click.option(
        "-o",
        "--out",
        type=click.Path(path_type=Path),
        is_eager=True,  # its name tells the format
        metavar="FILE",
        help=f"File to write. [default: {otherwise_to}]",
    )
    return lambda command: kind(out(command))
