"""`aiperf export`: results for other programs."""

from pathlib import Path

import click

from aiperf_core.errors import AiperfError, UsageError


@click.command("export")
@click.argument("what", metavar="BUNDLE[:TARGET[:IMPLEMENTATION]]")
@click.option(
    "--format",
    "kind",
    type=click.Choice(("csv", "markdown", "html", "json", "parquet")),
    required=True,
    help="One file; parquet needs pyarrow.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Where to. [default: standard output]")
def export(what: str, kind: str, out: Path | None) -> None:
    """Write results as a table with a row an implementation. Numbers are SI, in columns whose names carry the units."""
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.results import address, atomic
    from aiperf_core.results.export import render, table

    if kind == "parquet" and out is None:
        raise UsageError("--format parquet is not text; give it a file with --out FILE.")
    found = address.find(what)
    data = render(kind, found.bundle.path.resolve().name, found.bundle.manifest, table(found.outlines()))
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
