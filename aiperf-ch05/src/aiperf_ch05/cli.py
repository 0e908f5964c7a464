"""`aiperf ch05`: audits of storage, and a report on a dataset."""

import json
import tempfile
from pathlib import Path

import click
from attrs import asdict

from aiperf_core import units
from aiperf_core.cli.audit_view import print_audit
from aiperf_core.cli.tables import print_table

JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
PLACE = click.argument("path", type=click.Path(path_type=Path), required=False)


@click.group("ch05", context_settings={"help_option_names": ["-h", "--help"]})
def ch05() -> None:
    """Audit storage, and report on datasets."""


@ch05.command("io-audit")
@PLACE
@JSON
def io_audit(path: Path | None, as_json: bool) -> None:
    """Show the storage under PATH with advice: file system, disk, page cache. Changes nothing.

    PATH is a file or a folder, by default the folder of temporary files. Direct reads are tried on a file only.
    """
    from aiperf_ch05.io_audit import audit

    print_audit(audit(path or Path(tempfile.gettempdir())), as_json)


@ch05.command("gds-check")
@PLACE
@JSON
def gds_check(path: Path | None, as_json: bool) -> None:
    """Show whether reads under PATH can go to a GPU directly (GPUDirect Storage), and what is lacking."""
    from aiperf_ch05.gds_check import check

    print_audit(check(path or Path(tempfile.gettempdir())), as_json)


@ch05.command("dataset-report")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--field", default="text", show_default=True, help="The key of the document in a JSON line.")
@click.option("--unit", type=click.Choice(("words", "bytes")), default="words", show_default=True, help="Of lengths.")
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Documents in a batch.")
@click.option("--context", type=click.IntRange(min=1), default=2048, show_default=True, help="The longest sequence.")
@JSON
def dataset_report(path: Path, field: str, unit: str, batch: int, context: int, as_json: bool) -> None:
    """Report lengths, exact duplicates and padding of the documents in PATH.

    PATH ends in .jsonl or .json and has a JSON object on each line, or it is text with a document on each line. A
    document is a text, or a list of tokens.
    """
    from aiperf_ch05.dataset_report import report

    found = report(path, field, unit, batch, context)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    share = units.percent(found.duplicates / found.documents).strip()
    click.echo(f"{units.plural('document', found.documents)}, {found.empty:,} empty; {found.total:,} {found.unit}")
    click.echo(f"{found.duplicates:,} equal an earlier document ({share})")
    middle = ", ".join(f"{name} {value:,}" for name, value in found.percentiles.items())
    click.echo(f"lengths in {found.unit}: {found.least:,} to {found.longest:,}, mean {found.mean:,.1f}, {middle}\n")
    print_table(("LENGTH UP TO", "DOCUMENTS"), list(found.histogram.items()))
    click.echo()
    rows = [(units.percent(one.waste).strip(), units.percent(one.cut).strip(), one.way) for one in found.paddings]
    print_table(("PADDING", "CUT OFF", "BATCHES"), rows)
