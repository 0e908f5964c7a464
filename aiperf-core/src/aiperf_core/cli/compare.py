"""`aiperf compare`: what changed between two runs, or from one implementation to another."""

import math
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.bundles import ADDRESS, verified
from aiperf_core.cli.measuring import json_option
from aiperf_core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.measurements import Estimate
    from aiperf_core.results.address import Address
    from aiperf_core.stats.compare import Compared, Comparison


def _floor(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and 0 <= value < 1):
        raise UsageError(f"--floor takes a fraction from 0 to below 1, such as 0.01; got {value:g}.")
    return value


@click.command("compare")
@click.argument("left", type=ADDRESS, metavar="LEFT")
@click.argument("right", type=ADDRESS, metavar="RIGHT")
@click.option(
    "--floor",
    type=float,
    callback=_floor,
    metavar="FRACTION",
    help="The smallest difference that matters. [default: the runs' own, 0.01]",
)
@json_option()
@verified("left", "right", samples=lambda given: given["left"].implementation is not None)
def compare(left: "Address", right: "Address", floor: float | None, as_json: bool) -> ExitCode:
    """Compare two runs, targets or implementations: BUNDLE, BUNDLE:TARGET or BUNDLE:TARGET:IMPLEMENTATION.

    Differences of machines, software and options are shown first. A ratio above 1 means that RIGHT is faster. Rows that
    are not believed, or did other work, are listed and not compared.

    Exit code 4: a row became slower by more than the floor. 3: no row became slower, but a row that was believed in
    LEFT is INVALID or UNTRUSTED in RIGHT. 1: nothing could be compared.
    """
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.results import jsontext
    from aiperf_core.stats.compare import compare as compared

    found = compared(left, right, floor)
    out, _ = consoles()
    if as_json:
        out.write(jsontext.dumps(_document(str(left), str(right), found)))
    else:
        _print(out, str(left), str(right), found)
    if found.regressions:
        return ExitCode.BELOW_EXPECTATION
    if found.distrusted:
        return ExitCode.INVALID
    return ExitCode.OK if any(row.verdict for row in found.rows) else ExitCode.FAILED


def _print(out: "Screen", left: str, right: str, found: "Comparison") -> None:
    from aiperf_core.cli.tables import print_table
    from aiperf_core.names import words
    from aiperf_core.render.summary import counts

    click.echo(f"left   {words(left)}\nright  {words(right)}\n")
    if found.differences:
        rows = [(words(one.what), words(one.left) or "-", words(one.right) or "-") for one in found.differences]
        print_table(("what differs", "left", "right"), rows)
    else:
        click.echo("machine, software, sources and options are the same")
    compared = [row for row in found.rows if row.verdict]
    if compared:
        click.echo("")
        heads = ("target", "implementation", "left", "right", "ratio", "95 % interval", "verdict")
        print_table(heads, [_cells(out, row) for row in compared])
    apart = [row for row in found.rows if not row.verdict]
    if apart:
        click.echo("\nnot compared")
        rows = [(words(row.target), words(row.implementation), words(row.reason or "")) for row in apart]
        print_table(("target", "implementation", "why"), rows)
    counted = ", ".join(
        f"{count} {verdict.value}" for verdict, count in counts(row.verdict for row in compared if row.verdict)
    )
    click.echo(f"\n{counted or 'nothing was compared'}; {'paired by pass' if found.paired else 'two runs, not paired'}")


def _cells(out: "Screen", row: "Compared") -> tuple[str, ...]:
    from aiperf_core import units
    from aiperf_core.names import words

    assert row.ratio
    assert row.verdict
    times = [one.time_s if one else None for one in (row.left, row.right)]
    shown = [out.look.text(units.time_estimate(one).value).plain if one else "" for one in times]
    ratio = units.ratio_estimate(row.ratio)
    return (words(row.target), words(row.implementation), *shown, ratio.value, ratio.interval, row.verdict.value)


def _document(left: str, right: str, found: "Comparison") -> dict[str, Any]:
    from attrs import asdict

    def plain(estimate: "Estimate | None") -> dict[str, float] | None:
        return asdict(estimate) if estimate else None

    rows = [
        {
            "target": row.target,
            "implementation": row.implementation,
            "left_s": plain(row.left.time_s if row.left else None),
            "right_s": plain(row.right.time_s if row.right else None),
            "ratio": plain(row.ratio),
            "verdict": row.verdict.value if row.verdict else None,
            "reason": row.reason,
        }
        for row in found.rows
    ]
    differences = [asdict(difference) for difference in found.differences]
    return {"left": left, "right": right, "paired": found.paired, "differences": differences, "rows": rows}
