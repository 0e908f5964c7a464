"""`aiperf page`: the targets of a package as a page to publish."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.measuring import patterns_or_all, targets_option
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.report.result import Drawing


@click.command("page")
@click.argument("patterns", nargs=-1, metavar="PATTERN...")
@targets_option
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Page file, whose name ends in .md.",
)
@click.pass_obj
def page(plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter, out: Path) -> None:
    """Write targets as a page in Markdown: what they teach, their implementations, goals and measured speedups.

    The speedups are those that 'aiperf expectations write' stored in the package. Their figures are SVG files beside
    the page.

    A PATTERN is a group (ch07), a target (ch07.memory_access), a tag (tag:memory), a glob or 'all'.

    \b
    Examples:
      aiperf page ch07 --out ch07.md
    """
    if out.suffix != ".md":
        raise UsageError(f"'{out}' does not end in .md; give --out a name such as page.md.")
    targets = [selection.target for selection in plugins.select(patterns_or_all(patterns, only), only)]
    from aiperf_core import atomic, units
    from aiperf_core.loading import load_benchmark
    from aiperf_core.render.lesson import contents, lesson
    from aiperf_core.report import picture

    figures = 0

    def figure(name: str, drawing: "Drawing") -> str:
        nonlocal figures
        figures += 1
        file = out.with_name(f"{out.stem}-{name}.svg")
        picture.write(drawing, file)
        return f"![{drawing.message}]({file.name})"

    parts = [f"# {', '.join(dict.fromkeys(target.distribution for target in targets))}", contents(targets)]
    for target in targets:
        parts += lesson(target, load_benchmark(target), figure)
    try:
        atomic.write(out, ("\n\n".join(parts) + "\n").encode())
    except OSError as error:
        raise AiperfError(f"cannot write '{out}': {error.strerror or error}. Choose another --out.") from error
    click.echo(f"{out}: {units.plural('target', len(targets))}, {units.plural('figure', figures)}")
