"""`aiperf kernels`: compile the kernels of the installed benchmarks. Needs no GPU."""

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.measuring import echo_json, installed, json_option, targets_option
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.kernels.check import Outcome
    from aiperf_core.kernels.resources import Resources

WIDEST = 100
UNLIMITED = 100_000


@click.command("kernels")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@targets_option
@click.option(
    "--arch",
    "archs",
    metavar="ARCH,...",
    default="",
    help="Only for exactly these architectures, such as sm_80,sm_90a.",
)
@json_option("a JSON array, with all details of each kernel")
@click.option("--report", is_flag=True, help="Show a line for each kernel: resources, occupancy, instructions.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write the cubin files to this folder.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="COUNT",
    help="Processes that compile at the same time.",
)
@result_file_option
@click.pass_obj
def kernels(
    plugins: Plugins,
    patterns: tuple[str, ...],
    only: TargetFilter,
    archs: str,
    as_json: bool,
    report: bool,
    keep: Path | None,
    jobs: int,
    out: Path | None,
) -> None:
    """Compile the CUDA, Triton and C kernels of the installed benchmarks, and show their resources.

    Resources are registers, stack and spills of a thread, and shared memory of a block: of CUDA C++ the static part.
    Claims of a benchmark about its machine code are compared with the disassembly. Needs no GPU. A PATTERN is as in
    'aiperf list'. Without --arch, each file is compiled for the architectures that it declares, and for one each of
    Ampere, Hopper and Blackwell if it supports them.

    Exit code 1: a kernel does not compile or is not as claimed, or nothing was compiled. 2: an architecture is unknown.

    \b
    Examples:
      aiperf kernels ch07 --arch sm_90a
      aiperf kernels ch09.tensor_core_gemm --arch sm_90a --report
    """
    from aiperf_core.kernels.check import compile_all

    chosen = installed(plugins, patterns, only)
    asked = [arch.strip() for arch in archs.split(",") if arch.strip()]
    modules = [(target.name, target.module) for target in chosen]
    outcomes = list(compile_all(modules, asked, keep, jobs, count=report or out is not None))
    if out is not None or (report and not as_json):
        from aiperf_core.report.kernels import view

        show_result(view(outcomes), out)
    if as_json:
        from attrs import asdict

        echo_json([asdict(outcome) for outcome in outcomes])
    elif not report and out is None:
        _show(outcomes)
    states = {outcome.status for outcome in outcomes}
    if "failed" in states or states == {"skipped"}:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _show(outcomes: "Sequence[Outcome]") -> None:
    if not outcomes:
        click.echo("The chosen benchmarks have no kernels.")
        return
    _print_table(outcomes)
    for outcome in outcomes:
        if outcome.status == "failed":
            click.echo(f"\n{outcome.target}, {outcome.arch or outcome.kind}:\n{_wrapped(outcome.reason)}")
    counts = [(sum(o.status == status for o in outcomes), status) for status in ("ok", "failed", "skipped")]
    click.echo("\n" + ", ".join(f"{count} {status}" for count, status in counts if count))


def _print_table(outcomes: "Sequence[Outcome]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("target", "file", "kind", "arch", "bytes", "result"):
        table.add_column(head, justify="right" if head == "bytes" else "left", overflow="fold")
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
    # A pipe has no width: a message stays on its line, where programs find it.
    console.width = min(console.width, WIDEST) if sys.stdout.isatty() else UNLIMITED
    with console.capture() as captured:
        console.print(table)
    # rich pads cells with trailing blanks.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _result(outcome: "Outcome") -> str:
    of_kernel = f"{outcome.kernel}: " if outcome.kernel else ""
    if outcome.status == "skipped":
        return f"{of_kernel}skipped: {outcome.reason}"
    if outcome.status == "failed":
        return f"{of_kernel}failed"
    held = [f"as claimed: {', '.join(dict.fromkeys(outcome.claims))}"] if outcome.claims else []
    return "\n".join(["ok", *held, *(f"{name}: {_used(needs)}" for name, needs in outcome.resources.items())])


def _used(needs: "Resources") -> str:
    parts = [f"{needs.registers} registers"]
    parts += [f"{needs.shared_bytes:,} B shared"] if needs.shared_bytes else []
    parts += [f"{needs.stack_bytes:,} B stack"] if needs.stack_bytes else []
    parts += [f"{needs.spill_bytes:,} B spilled"] if needs.spill_bytes else []
    return ", ".join(parts)


def _wrapped(text: str) -> str:
    """Wrap to the width, but neither an error of a compiler nor a path, so that editors find the place."""
    return "\n".join(
        line
        if ": error: " in line
        else textwrap.fill(line, WIDEST, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
