"""`aiperf example`."""

import os
from pathlib import Path

import click

from aiperf_core.errors import UsageError


@click.command("example")
def command() -> None:
    """Count the rows that were FASTER so far, in the file that `AIPERF_EXAMPLE_NOTES` names."""
    notes = os.environ.get("AIPERF_EXAMPLE_NOTES")
    if not notes:
        raise UsageError("No file of notes is named. Name one: export AIPERF_EXAMPLE_NOTES=notes.txt")
    try:
        lines = Path(notes).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UsageError(f"'{notes}' is not there yet. Run something first: aiperf run example") from None
    click.echo(f"{sum(line.endswith(' FASTER') for line in lines)} of {len(lines)} rows were FASTER")
