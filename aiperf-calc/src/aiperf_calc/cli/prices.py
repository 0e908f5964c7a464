"""`aiperf prices`: show, check and add prices of machines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode, UsageError

_file_option = click.option(
    "--prices", "name", metavar="FILE|seed",
    help="The price file; seed is an example without date and source. [default: ~/.config/aiperf/prices.toml]",
)  # fmt: skip
_age_option = click.option("--max-age", type=click.IntRange(0), metavar="DAYS", help="Refuse prices older than this.")


@click.group("prices")
def prices() -> None:
    """Show, check and add prices of machines, for `aiperf analyze cost`.

    The package ships no price as a fact. Every entry needs the date when it was read and its source.
    """


@prices.command("show")
@_file_option
@_age_option
@result_file_option
@json_option("the prices as one JSON document")
def show(name: str | None, max_age: int | None, out: Path | None, as_json: bool) -> ExitCode:
    """Show all prices with their age and source."""
    from aiperf_calc.prices import book
    from aiperf_calc.prices.listing import listed

    entries = book.read(name)
    return show_result(listed(entries, book.warnings(entries.prices, max_age)), out, as_json=as_json)


@prices.command("check")
@_file_option
@_age_option
def check(name: str | None, max_age: int | None) -> ExitCode:
    """Check a price file: every entry is complete, and none is old."""
    from aiperf_calc.prices import book
    from aiperf_core.units import plural

    entries = book.read(name)
    warnings = book.warnings(entries.prices, max_age)
    for warning in warnings:
        click.echo(warning)
    click.echo(f"{plural('price', len(entries.prices))} in {entries.file}, {plural('warning', len(warnings))}")
    return ExitCode.OK


def _entry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of an entry, in the order of the help."""
    options = [
        click.option("--gpu", required=True, metavar="PATTERN", help="Kinds of machine, such as 'nvidia-h200*'."),
        click.option(
            "--usd-per-hour", type=float, metavar="USD", help="Dollars an hour, of one GPU unless --per says otherwise."
        ),
        click.option(
            "--per-hour", type=float, metavar="AMOUNT", help="Price an hour in another currency; see --currency."
        ),
        click.option("--currency", metavar="NAME", help="Currency of --per-hour. The file has its rate in dollars."),
        click.option(
            "--per",
            type=click.Choice(("gpu", "machine")),
            help="Whether the price is of one GPU or of a machine. [default: gpu]",
        ),
        click.option("--provider", metavar="NAME", help="Provider of the machine."),
        click.option("--region", metavar="NAME", help="Region of the machine."),
        click.option("--commitment", metavar="NAME", help="Terms, such as on-demand or 1-year."),
        click.option("--date", metavar="YYYY-MM-DD", help="When the price was read. [default: today]"),
        click.option("--source", required=True, metavar="SOURCE", help="Where it was read, such as an address."),
        click.option("--note", metavar="NOTE", help="A remark."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@prices.command("add")
@_file_option
@_entry_options
def add(name: str | None, **entry: Any) -> ExitCode:
    """Add a price to the file. The file is written whole or not at all.

    \b
    Examples:
      aiperf prices add --gpu 'nvidia-h200*' --usd-per-hour 3.50 \\
          --source https://example.com/prices
    """
    from datetime import UTC, date, datetime

    from aiperf_calc.prices import book

    if name == book.SEED:
        raise UsageError("'seed' is an example and cannot be changed. Name a file: --prices FILE")
    if (entry["usd_per_hour"] is None) == (entry["per_hour"] is None):
        raise UsageError("a price needs either --usd-per-hour, or --per-hour with --currency.")
    given = {key: value for key, value in entry.items() if value is not None}
    text = given.pop("date", None)
    try:
        given["date"] = date.fromisoformat(text) if text else datetime.now(UTC).date()
    except ValueError:
        raise UsageError(f"--date takes a day such as 2026-01-31; got {text!r}.") from None
    path = Path(name) if name else book.default_path()
    added = book.add(path, given)
    click.echo(f"added to {path}: {added.name}, {added.usd_per_hour:g} USD an hour of a {added.per}, {added.date}")
    return ExitCode.OK


@prices.command("template")
def template() -> ExitCode:
    """Print an empty price file with every key explained."""
    from aiperf_calc.prices import book

    click.echo(book.template(), nl=False)
    return ExitCode.OK
