"""`aiperf report`: a run as a page to read and to send."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, Seals, verified
from aiperf_core.cli.formats import file_options
from aiperf_core.errors import AiperfError, BundleError, ExitCode, UsageError
from aiperf_core.names import printable
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.render.report.content import Report
    from aiperf_core.results.address import Address
    from aiperf_core.results.models import TargetResult

FORMATS = ("html", "markdown", "pdf")


def _plots(_: click.Context, __: click.Parameter, value: str) -> int:
    """The number of targets with pictures."""
    if value in ("all", "none"):
        return sys.maxsize if value == "all" else 0
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise UsageError(f"--plots {value!r} is not a number of targets; accepted: all, none, or a number.")
    return int(value)


@click.command("report")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET]")
@file_options(FORMATS, "Page format.", default="html", otherwise_to="one in the folder reports of the bundle; -: print")
@click.option(
    "--plots",
    callback=_plots,
    default="30",
    show_default=True,
    metavar="all|none|N",
    help="How many targets get pictures. Pictures need the samples to be read.",
)
@verified("what", samples=lambda given: bool(given["plots"]) and given["kind"] != "markdown", as_seals=True)
@click.pass_obj
def report(plugins: Plugins, what: "Address", kind: str, out: Path | None, plots: int, seals: Seals) -> ExitCode:
    """Write the results of a run, or of one of its targets, as a page: problems, speedups, their reasons, the machine.

    The page loads and runs nothing. PDF needs the extra aiperf-core[report].

    \b
    Examples:
      aiperf report latest
      aiperf report latest --out report.html
      aiperf report latest:ch07.memory_access --out page.md
    """
    from aiperf_core.render.report.content import report as content

    file = None if str(out) == "-" else out or _in_bundle(what, kind)
    if kind == "pdf":
        from aiperf_core.render.report import pdf

        pdf.check()
        if file is None:
            raise UsageError("--format pdf is not text; give it a file with --out FILE.")
    if out is not None and out.is_dir():
        raise UsageError(f"--out '{out}' is a folder; name a file.")
    results, unread = _read(what, 0 if kind == "markdown" else plots)
    page = content(
        what.target or what.bundle.path.resolve().name,
        what.bundle.manifest,
        results,
        {name: issue.record for name, issue in plugins.issues.items()},
        skipped=what.bundle.manifest.skipped if what.target is None else (),
        unread=[*(("seal", one.told()) for one in seals.broken), *unread],
    )
    data = _render(kind, page, what, results, plots)
    if file is None:
        from aiperf_core.cli.run_view import consoles

        consoles()[0].write(data.decode())
    else:
        _write(file, data, len(results))
    for name, why in unread:
        click.echo(f"aiperf: {why}" if name in why else f"aiperf: '{name}': {why}", err=True)
    return ExitCode.FAILED if unread else ExitCode.OK


def _in_bundle(what: "Address", kind: str) -> Path:
    """The file of a page in its bundle: `reports/run.html`, or one with the name of the target."""
    from aiperf_core.cli.formats import ENDINGS
    from aiperf_core.results.filenames import REPORTS, file_name

    name = file_name(":".join(filter(None, (what.target, what.implementation))) or "run")
    return what.bundle.path / REPORTS / f"{name}.{ENDINGS.get(kind, kind)}"


def _read(found: "Address", drawn: int) -> tuple[list["TargetResult"], list[tuple[str, str]]]:
    """The results, the first `drawn` of them with their samples, and the targets that could not be read."""
    results: list[TargetResult] = []
    unread: list[tuple[str, str]] = []
    for name in found.targets:
        try:
            result = found.bundle.target(name) if len(results) < drawn else found.bundle.outline(name)
            results.append(found.narrowed(result))
        except BundleError as error:
            unread.append((name, str(error)))
    return results, unread


def _render(kind: str, page: "Report", found: "Address", results: list["TargetResult"], plots: int) -> bytes:
    from aiperf_core.render.report import markdown, pdf

    if kind == "markdown":
        text = markdown.render(page)
    else:
        from aiperf_core.render.report import html

        text = html.render(page, results, found.bundle.manifest, plots)
    return pdf.render(text) if kind == "pdf" else text.encode("utf-8", errors="backslashreplace")


def _write(out: Path, data: bytes, targets: int) -> None:
    from aiperf_core import atomic, units
    from aiperf_core.results.filenames import REPORTS

    in_bundle = out.parent.name == REPORTS
    try:
        if in_bundle:
            out.parent.mkdir(exist_ok=True)
        atomic.write(out, data)
    except OSError as error:
        remedy = " Name another file: --out FILE" if in_bundle else ""
        raise AiperfError(f"cannot write '{out}': {error.strerror or error}.{remedy}") from error
    click.echo(f"{printable(str(out))}: {units.plural('target', targets)}, {units.size(len(data))}")
