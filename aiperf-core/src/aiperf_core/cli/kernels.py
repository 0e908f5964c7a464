"""`aiperf kernels`: compile every kernel, on a machine without a GPU too."""

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.kernels.check import Outcome

WIDEST = 100


@click.command("kernels")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@click.option("--arch", "archs", metavar="ARCH,...", default="", help="For these only, such as sm_80,sm_90a.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with everything known of each.")
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), help="Write the machine code (cubin) to this folder."
)
@click.pass_obj
def kernels(plugins: Plugins, patterns: tuple[str, ...], archs: str, as_json: bool, keep: Path | None) -> None:
    """Compile the CUDA, Triton and C kernels of the installed benchmarks, and show what each takes.

    Needs no GPU. A PATTERN is as in `aiperf list`. Without --arch, each file is compiled for the architectures that it
    declares, and for those of sm_80, sm_90a and sm_100a that it supports. Exits with 1 where any does not compile.
    """
    from aiperf_core.kernels.check import compile_all

    chosen = [one.target for one in plugins.select(patterns)] if patterns else list(plugins.targets)
    asked = [arch.strip() for arch in archs.split(",") if arch.strip()]
    outcomes = list(compile_all([(target.name, target.module) for target in chosen], asked, keep))
    if as_json:
        import json

        from attrs import asdict

        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    else:
        _show(outcomes)
    if any(outcome.status == "failed" for outcome in outcomes):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _show(outcomes: "Sequence[Outcome]") -> None:
    if not outcomes:
        click.echo("These benchmarks have no kernels of their own.")
        return
    _print_table(outcomes)
    for outcome in outcomes:
        if outcome.status == "failed":
            click.echo(f"\n{outcome.target}, {outcome.arch or outcome.kind}: {_wrapped(outcome.reason)}")
    counts = [(sum(o.status == status for o in outcomes), status) for status in ("ok", "failed", "skipped")]
    click.echo("\n" + ", ".join(f"{count} {status}" for count, status in counts if count))


def _print_table(outcomes: "Sequence[Outcome]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("TARGET", "FILE", "KIND", "ARCH", "BYTES", "RESULT"):
        table.add_column(head, justify="right" if head == "BYTES" else "left", overflow="fold")
    for outcome in outcomes:
        cells = (
            outcome.target,
            outcome.file,
            outcome.kind,
            outcome.arch,
            str(outcome.size_bytes or ""),
            _result(outcome),
        )
        table.add_row(*map(Text, cells))
    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if sys.stdout.isatty() else WIDEST
    with console.capture() as captured:
        console.print(table)
    # rich fills cells with blanks, which in a file are only noise.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _result(outcome: "Outcome") -> str:
    of_kernel = f"{outcome.kernel}: " if outcome.kernel else ""
    if outcome.status == "skipped":
        return f"{of_kernel}skipped: {outcome.reason}"
    if outcome.status == "failed":
        return f"{of_kernel}failed"
    used = [
        f"{name}: {needs.registers} registers" + (f", {needs.stack_bytes} B of stack" if needs.stack_bytes else "")
        for name, needs in outcome.resources.items()
    ]
    return "\n".join(["ok", *used])


def _wrapped(text: str) -> str:
    """Keep to the width, but never break a path: it is there to be copied."""
    return "\n".join(
        textwrap.fill(line, WIDEST, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
