"""`aiperf report`: a run as a page to read and to send."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.errors import AiperfError, BundleError, ExitCode, UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.render.report.content import Report
    from aiperf_core.results.address import Address
    from aiperf_core.results.models import Manifest, TargetResult

FORMATS = ("html", "markdown", "pdf")


def _plots(_: click.Context, __: click.Parameter, value: str) -> int:
    """How many targets have pictures."""
    if value in ("all", "none"):
        return sys.maxsize if value == "all" else 0
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise UsageError(f"--plots {value!r} says not how many targets get pictures; accepted: all, none, or a number.")
    return int(value)


@click.command("report")
@click.argument("what", metavar="BUNDLE[:TARGET]")
@click.option("--format", "kind", type=click.Choice(FORMATS), default="html", show_default=True, help="Of the page.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Where to; - is standard output, the default."
)
@click.option(
    "--plots",
    callback=_plots,
    default="30",
    show_default=True,
    metavar="all|none|N",
    help="How many targets get pictures; their samples have to be read.",
)
@click.pass_obj
def report(plugins: Plugins, what: str, kind: str, out: Path | None, plots: int) -> ExitCode:
    """Write the results of a run, or of one of its targets, as a page: what is wrong, what is faster, why, and where.

    The page loads nothing and runs nothing. PDF needs the extra aiperf-core[report].
    """
    from aiperf_core.results import address

    to_screen = out is None or str(out) == "-"
    if kind == "pdf":
        from aiperf_core.render.report import pdf

        pdf.check()
        if to_screen:
            raise UsageError("--format pdf is not text; give it a file with --out FILE.")
    if out is not None and out.is_dir():
        raise UsageError(f"--out '{out}' is a folder; name a file.")
    found = address.find(what)
    manifest = found.bundle.manifest
    results, unread = _read(found, 0 if kind == "markdown" else plots)
    page = _content(found, manifest, results, unread, plugins)
    data = _render(kind, page, manifest, results, plots)
    if out is None or to_screen:
        from aiperf_core.cli.run_view import consoles

        consoles()[0].write(data.decode())
    else:
        _write(out, data, page)
    for name, why in unread:
        click.echo(f"aiperf: {why}" if name in why else f"aiperf: '{name}': {why}", err=True)
    return ExitCode.FAILED if unread else ExitCode.OK


def _read(found: "Address", drawn: int) -> tuple[list["TargetResult"], list[tuple[str, str]]]:
    """The results, those that are drawn with their samples, and what could not be read."""
    results: list[TargetResult] = []
    unread: list[tuple[str, str]] = []
    for name in found.targets:
        try:
            one = found.bundle.target(name) if len(results) < drawn else found.bundle.outline(name)
            results.append(found.narrowed(one))
        except BundleError as error:
            unread.append((name, str(error)))
    return results, unread


def _content(
    found: "Address",
    manifest: "Manifest",
    results: list["TargetResult"],
    unread: list[tuple[str, str]],
    plugins: Plugins,
) -> "Report":
    from aiperf_core.render.report.content import report as content

    return content(
        found.target or found.bundle.path.resolve().name,
        manifest,
        results,
        {name: one.record for name, one in plugins.issues.items()},
        skipped=manifest.skipped if found.target is None else (),
        unread=unread,
    )


def _render(kind: str, page: "Report", manifest: "Manifest", results: list["TargetResult"], plots: int) -> bytes:
    if kind == "markdown":
        from aiperf_core.render.report import markdown

        return markdown.render(page).encode("utf-8", errors="backslashreplace")
    from aiperf_core.render.report import html

    text = html.render(page, html.draw(results, manifest, plots))
    if kind == "pdf":
        from aiperf_core.render.report import pdf

        return pdf.render(text)
    return text.encode("utf-8", errors="backslashreplace")


def _write(out: Path, data: bytes, page: "Report") -> None:
    from aiperf_core import units
    from aiperf_core.results import atomic

    try:
        atomic.write(out, data)
    except OSError as error:
        raise AiperfError(f"cannot write '{out}': {error.strerror or error}.") from error
    count = len(page.sections)
    click.echo(f"{out}: {count} target{'' if count == 1 else 's'}, {units.size(len(data))}")
