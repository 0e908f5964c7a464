"""`aiperf export`: write results for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, verified
from aiperf_core.cli.formats import file_options
from aiperf_core.errors import AiperfError, UsageError

if TYPE_CHECKING:
    from aiperf_core.results.address import Address

# Each format with its use.
FORMATS = {
    "csv": "spreadsheets and R",
    "markdown": "a table in an issue or a README",
    "html": "a table in a web page",
    "json": "scripts, with the types of values",
    "parquet": "pandas, Polars and DuckDB (needs pyarrow and --out)",
}


@click.command("export")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET[:IMPLEMENTATION]]")
@file_options(tuple(FORMATS), f"{'; '.join(f'{name}: {use}' for name, use in FORMATS.items())}.")
@click.option("--samples", is_flag=True, help="Write one row per sample, as csv, json or parquet.")
@verified("what", samples=lambda given: given["samples"])
def export(what: "Address", kind: str, samples: bool, out: Path | None) -> None:
    """Write results for other programs, as a table with one row per implementation.

    Values are in SI units; the names of columns carry the unit.

    A page to read is written by 'aiperf report'.

    \b
    Examples:
      aiperf export latest --out rows.csv
      aiperf export latest --samples --out samples.parquet
    """
    from aiperf_core import atomic
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.report.text import SAMPLE_FORMATS, render, render_samples, sample_table, table

    if samples and kind not in SAMPLE_FORMATS:
        raise UsageError(f"--samples takes --format {', '.join(SAMPLE_FORMATS)}; got {kind}.")
    if kind == "parquet" and out is None:
        raise UsageError("--format parquet is binary and needs a file: --out FILE.")
    name, manifest = what.bundle.path.resolve().name, what.bundle.manifest
    if samples:
        data = render_samples(kind, name, manifest, list(sample_table(what.results())))
    else:
        data = render(kind, name, manifest, table(name, manifest, what.outlines()))
    if out is None:
        screen, _ = consoles()
        screen.write(data.decode())
        return
    if out.is_dir():
        raise UsageError(f"--out '{out}' is a folder; name a file.")
    try:
        atomic.write(out, data)
    except OSError as error:
        raise AiperfError(f"cannot write '{out}': {error.strerror or error}.") from error
