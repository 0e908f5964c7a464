"""`aiperf ch05`: audits of storage, and reports on datasets and loaders."""

import json
import tempfile
from pathlib import Path

import click
from attrs import asdict

from aiperf_core import units
from aiperf_core.cli.audit_view import print_audit
from aiperf_core.cli.measuring import FiniteRange
from aiperf_core.cli.tables import print_table

JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
PLACE = click.argument("path", type=click.Path(path_type=Path), required=False)


@click.group("ch05", context_settings={"help_option_names": ["-h", "--help"]})
def ch05() -> None:
    """Audit storage, datasets and data loaders."""


@ch05.command("io-audit")
@PLACE
@JSON
def io_audit(path: Path | None, as_json: bool) -> None:
    """Show the file system, disk and page cache of PATH.

    Changes nothing.

    PATH is a file or a folder, by default the folder of temporary files. Direct reads are tried on a file only.
    """
    from aiperf_ch05.io_audit import audit

    print_audit(audit(path or Path(tempfile.gettempdir())), as_json)


@ch05.command("gds-check")
@PLACE
@JSON
def gds_check(path: Path | None, as_json: bool) -> None:
    """Show whether GPUDirect Storage works under PATH.

    With it, reads go to a GPU directly. What is missing is listed.
    """
    from aiperf_ch05.gds_check import check

    print_audit(check(path or Path(tempfile.gettempdir())), as_json)


@ch05.command("dataset-report")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--field", default="text", show_default=True, metavar="NAME", help="The key of the document in a JSON line."
)
@click.option(
    "--unit", type=click.Choice(("words", "bytes")), default="words", show_default=True, help="Unit of lengths."
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=32, show_default=True, metavar="COUNT", help="Documents in a batch."
)
@click.option(
    "--context",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    metavar="LENGTH",
    help="The longest sequence.",
)
@JSON
def dataset_report(path: Path, field: str, unit: str, batch: int, context: int, as_json: bool) -> None:
    """Report lengths, duplicates and padding of documents.

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
    print_table(("length up to", "documents"), list(found.histogram.items()))
    click.echo()
    rows = [(units.percent(one.waste).strip(), units.percent(one.cut).strip(), one.way) for one in found.paddings]
    print_table(("padding", "cut off", "batches"), rows)


@ch05.command("stall-report")
@click.argument("loader", metavar="MODULE:FUNCTION")
@click.option("--step", metavar="MODULE:FUNCTION", help="The step: a function of a batch that returns when it is done.")
@click.option(
    "--step-ms",
    type=FiniteRange(min=0),
    default=20.0,
    show_default=True,
    metavar="MILLISECONDS",
    help="A step that sleeps this long.",
)
@click.option(
    "--steps", type=click.IntRange(min=1), default=100, show_default=True, metavar="COUNT", help="Steps that are timed."
)
@JSON
def stall_report(loader: str, step: str | None, step_ms: float, steps: int, as_json: bool) -> None:
    """Measure how long a training step waits for its data.

    MODULE:FUNCTION is a function without arguments that returns the loader, such as a DataLoader. Each batch goes to
    --step, or to a step that sleeps. The first batch, which starts the loader, is reported separately.
    """
    from aiperf_ch05 import stall_report as study

    work = study.found(step) if step else study.sleeping(step_ms / 1e3)
    stalls = study.measure(study.found(loader)(), work, steps)
    if as_json:
        click.echo(json.dumps(asdict(stalls), indent=2))
        return
    click.echo(f"waits for data: {units.percent(stalls.waiting).strip()} of the time of {stalls.steps:,} steps\n")
    rows = [
        ("first batch", units.seconds(stalls.first_s)),
        ("wait, median", units.seconds(stalls.wait_median_s)),
        ("wait, 99th percentile", units.seconds(stalls.wait_p99_s)),
        ("wait, longest", units.seconds(stalls.wait_most_s)),
        ("step, median", units.seconds(stalls.step_median_s)),
        ("steps that waited", f"{stalls.stalled_steps:,}"),
        ("speedup without waits", f"{stalls.speedup:.2f}x"),
    ]
    print_table(("figure", "value"), [(name, value.strip()) for name, value in rows])
    if stalls.advice:
        click.echo(f"\n{stalls.advice}")
