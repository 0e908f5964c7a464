"""`aiperf export`: write results for other programs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, verified
from aiperf_core.errors import AiperfError, UsageError

if TYPE_CHECKING:
    from aiperf_core.results.address import Address


@click.command("export")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET[:IMPLEMENTATION]]")
@click.option(
    "--format",
    "kind",
    type=click.Choice(("csv", "markdown", "html", "json", "parquet")),
    required=True,
    help="Format of the file. parquet needs pyarrow.",
)
@click.option("--samples", is_flag=True, help="Write one row per sample, as csv, json or parquet.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="File to write. [default: standard output]"
)
@verified("what", samples=lambda given: given["samples"])
def export(what: "Address", kind: str, samples: bool, out: Path | None) -> None:
    """Write results as a table with one row per implementation. Values are in SI units; column names carry the unit."""
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.results import atomic
    from aiperf_core.results.export import SAMPLE_FORMATS, render, render_samples, sample_table, table

    if samples and kind not in SAMPLE_FORMATS:
        raise UsageError(f"--samples takes --format {', '.join(SAMPLE_FORMATS)}; got {kind}.")
    if kind == "parquet" and out is None:
        raise UsageError("--format parquet is binary and needs a file: --out FILE.")
    name, manifest = what.bundle.path.resolve().name, what.bundle.manifest
    if samples:
        data = render_samples(kind, name, manifest, list(sample_table(what.results())))
    else:
        data = render(kind, name, manifest, table(what.outlines()))
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
