"""Output of the subcommands: what they print and write."""

import csv
import io
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.tables import print_table, print_text
from aiperf_core.errors import AiperfError
from aiperf_core.names import printable

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins
    from aiperf_load.measuring import Measuring
    from aiperf_load.records import LoadResult
    from aiperf_load.spec import LoadSpec


def begin(plugins: "Plugins", spec: "LoadSpec", mode: str, given: dict[str, Any]) -> "Measuring":
    """Check what can be checked, try the server, and open a bundle."""
    from attrs import evolve

    from aiperf_core.manifest import new_manifest
    from aiperf_core.report import picture
    from aiperf_load.measuring import opened

    if given["picture"] is not None:
        picture.check(given["picture"], "--picture")
    manifest = evolve(new_manifest(plugins=plugins), labels=given["labels"])
    shown = _progress if sys.stderr.isatty() else None
    told = partial(click.echo, err=True)
    return opened(spec, manifest, mode, name=given["name"], out=given["out"], told=told, progress=shown)


def _progress(ended: int, known: int) -> None:
    click.echo(f"\r{ended:,} of {known:,} requests ended ", nl=False, err=True)


def end(measuring: "Measuring", given: dict[str, Any]) -> None:
    """Print and write the result."""
    show(measuring.result, given["name"], given)
    if not given["as_json"]:
        click.echo(f"\n{printable(str(measuring.bundle.path))}")


def show(result: "LoadResult", name: str, given: dict[str, Any]) -> None:
    """Print a load, and write its picture and its points as CSV, as the options of outputs say."""
    from aiperf_core.report.picture import write
    from aiperf_core.results import jsontext, structure
    from aiperf_load import pictures, tables

    if given["picture"] is not None:
        write(pictures.drawings(result, name), given["picture"], "--picture")
    if given["csv_file"] is not None:
        _write(given["csv_file"], as_csv(result))
    if given["as_json"]:
        click.echo(jsontext.dumps(structure.document(result)))
        return
    for index, table in enumerate(tables.tables(result, verbose=given["verbose"])):
        click.echo(("\n" if index else "") + table.title)
        print_table(table.heads, table.rows)
    found = tables.notes(result)
    if found:
        click.echo("")
    for note in found:
        print_text(f"note: {note}")


def as_csv(result: "LoadResult") -> str:
    """The points, one a line; an interval is in columns of its own."""
    rows = []
    for one in result.points:
        row: dict[str, Any] = {"point": one.name, "arrivals": one.spec.arrivals.kind,
                               "rate_per_s": one.spec.arrivals.rate_per_s}  # fmt: skip
        for field in ("offered_per_s", "counted", "state", "trusted", "lateness_p99_s", "output_tokens_per_s",
                      "input_tokens_per_s", "good_tokens_per_s", "in_flight", "residence_s"):  # fmt: skip
            row[field] = getattr(one, field)
        figures = {"goodput_per_s": one.goodput_per_s, "goodput_share": one.goodput_share,
                   "user_tokens_per_s": one.user_tokens_per_s}  # fmt: skip
        figures |= {f"{name}_{share}": figure for name, all_ in one.latencies.items() for share, figure in all_.items()}
        for field, figure in figures.items():
            row |= {field: figure.value, f"{field}_low": figure.low, f"{field}_high": figure.high}
        rows.append(row)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else ["point"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _write(path: Path, text: str) -> None:
    from aiperf_core import atomic

    try:
        atomic.write(path, text.encode())
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another --csv.") from error
