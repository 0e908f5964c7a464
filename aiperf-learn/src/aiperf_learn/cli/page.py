"""`aiperf page`: the targets of a package as a page to publish."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import BUNDLE, Seals, verified
from aiperf_core.cli.measuring import patterns_or_all, targets_option
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.report.result import Drawing
    from aiperf_core.results.address import Address
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.models import TargetResult
    from aiperf_learn.pages.model import LessonPage

    # The bundle of a page, its results, and doubts about it.
    Stamped = tuple[Bundle, Sequence[TargetResult], Sequence[str]]


@click.command("page")
@click.argument("patterns", nargs=-1, metavar="PATTERN...")
@targets_option
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Page file, whose name ends in .md or .html.",
)
@click.option(
    "--from",
    "bundle",
    type=BUNDLE,
    metavar="BUNDLE",
    help="Show the figures of this bundle too, before the stored ones, with its tier.",
)
@verified("bundle", figures=True, as_seals=True)
@click.pass_obj
def page(
    plugins: Plugins,
    patterns: tuple[str, ...],
    only: TargetFilter,
    out: Path,
    bundle: "Address | None",
    seals: Seals,
) -> ExitCode:
    """Write targets as a page: what they teach, measured speedups, the code step by step, goals and an exercise.

    The speedups are those that 'aiperf expectations write' stored in the package, and with --from those of a bundle. A
    page in Markdown has its figures as SVG files beside it. A page in HTML is one file.

    A PATTERN is a group (ch07), a target (ch07.memory_access), a tag (tag:memory), a glob or 'all'.

    \b
    Examples:
      aiperf page ch07 --out ch07.md
      aiperf page ch07.transpose --out transpose.html
      aiperf page acme --from latest --out acme.md
    """
    if out.suffix not in (".md", ".html"):
        raise UsageError(f"'{out}' does not end in .md or .html; give --out a name such as page.md.")
    targets = [selection.target for selection in plugins.select(patterns_or_all(patterns, only), only)]
    from aiperf_core import atomic, units
    from aiperf_core.loading import load_benchmark
    from aiperf_learn.pages.model import lesson_page

    results = _results(bundle, [target.name for target in targets]) if bundle else {}
    pages = [
        lesson_page(target, load_benchmark(target), [(bundle.bundle, results.get(target.name))] if bundle else ())
        for target in targets
    ]
    title = ", ".join(dict.fromkeys(target.distribution for target in targets))
    warnings = [seal.told() for seal in seals.found]
    stamped = (bundle.bundle, [*results.values()], warnings) if bundle else None
    text = (_html if out.suffix == ".html" else _markdown)(title, pages, out, stamped)
    try:
        atomic.write(out, text.encode())
    except OSError as error:
        raise AiperfError(f"cannot write '{out}': {error.strerror or error}. Choose another --out.") from error
    figures = sum(len(page.ladders) + len(page.mechanisms) + len(page.sweeps) for page in pages)
    click.echo(f"{out}: {units.plural('target', len(targets))}, {units.plural('figure', figures)}")
    return ExitCode.OK


def _markdown(title: str, pages: "Sequence[LessonPage]", out: Path, stamped: "Stamped | None") -> str:
    """The page in Markdown, whose figures are written as files beside it."""
    from aiperf_core.report import picture
    from aiperf_learn.pages.markdown import contents, lesson, stamp

    def figure(name: str, drawing: "Drawing") -> str:
        file = out.with_name(f"{out.stem}-{name}.svg")
        picture.write(drawing, file)
        return f"![{drawing.message}]({file.name})"

    parts = [f"# {title}", *([stamp(*stamped)] if stamped else []), contents([page.target for page in pages])]
    for page in pages:
        parts += lesson(page, figure)
    return "\n\n".join(parts) + "\n"


def _html(title: str, pages: "Sequence[LessonPage]", _: Path, stamped: "Stamped | None") -> str:
    """The page in HTML."""
    from aiperf_learn.pages.html import document
    from aiperf_learn.pages.markdown import citation

    notes = [f"{citation(stamped[1])}: {stamped[0].path.resolve().name}", *stamped[2]] if stamped else []
    return document(pages[0].target.name if len(pages) == 1 else title, pages, notes)


def _results(address: "Address", names: Sequence[str]) -> "dict[str, TargetResult]":
    """The results of some targets in a bundle, of a sweep its first point. Raises UsageError where there are none."""
    from aiperf_core.sweep import base_name

    found: dict[str, TargetResult] = {}
    for name in address.targets:
        if base_name(name) in names and base_name(name) not in found:
            found[base_name(name)] = address.bundle.outline(name)
    if not found:
        raise UsageError(
            f"'{address.bundle.path}' has no result of these targets. There are: {', '.join(address.targets) or 'none'}"
        )
    return found
