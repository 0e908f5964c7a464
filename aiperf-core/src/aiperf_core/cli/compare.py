"""`aiperf compare`: what changed between two runs, or from one implementation to another."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.bundles import ADDRESS, verified
from aiperf_core.cli.ci import Ci, ci_options
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import json_option
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.measurements import Estimate
    from aiperf_core.results.address import Address
    from aiperf_core.stats.compare import Compared, Comparison, Difference

# The options of targets that may differ, as `stats.compare` names them behind the target.
OPTIONS = ("tier", "floor", "tolerance", "size", "device")
MOST_NAMES = 3  # of targets in a row; more are counted


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
@color_option
@json_option()
@ci_options
@verified("left", "right", samples=lambda given: given["left"].implementation is not None)
@click.pass_obj
def compare(
    plugins: Plugins, left: "Address", right: "Address", floor: float | None, as_json: bool, ci: Ci
) -> ExitCode:
    """Compare two runs, targets or implementations: BUNDLE, BUNDLE:TARGET or BUNDLE:TARGET:IMPLEMENTATION.

    Differences of machines, software and options are shown first. A ratio above 1 means that RIGHT is faster. Rows that
    are not believed, or did other work, are listed and not compared.

    Exit code 4: a row became slower by more than the floor. 3: no row became slower, but a row that was believed in
    LEFT is INVALID or UNTRUSTED in RIGHT. 1: nothing could be compared.

    \b
    Examples:
      aiperf compare latest~1 latest
      aiperf compare latest~1:ch07.transpose latest:ch07.transpose --floor 0.03
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
    if ci.given:
        from aiperf_core.render.ci import cases_of_comparison

        ci.write(plugins, cases_of_comparison(found))
    if found.regressions:
        return ExitCode.BELOW_EXPECTATION
    if found.distrusted:
        return ExitCode.INVALID
    return ExitCode.OK if any(row.verdict for row in found.rows) else ExitCode.FAILED


def _print(out: "Screen", left: str, right: str, found: "Comparison") -> None:
    from aiperf_core.cli.tables import print_table, print_text
    from aiperf_core.names import words
    from aiperf_core.render.summary import counts

    click.echo(f"left   {words(left)}\nright  {words(right)}\n")
    if found.differences:
        print_table(("what differs", "left", "right"), alike_differences(found.differences))
    else:
        print_text("machine, software, sources and options are the same")
    compared = [row for row in found.rows if row.verdict]
    if compared:
        click.echo("")
        heads = ("target", "implementation", "left", "right", "ratio", "95 % interval", "verdict")
        print_table(heads, [_cells(out, row) for row in compared])
    apart = [row for row in found.rows if not row.verdict]
    if apart:
        click.echo("\nnot compared")
        print_table(("why", "target", "implementations"), _alike_rows(apart))
    counted = ", ".join(
        f"{count} {verdict.value}" for verdict, count in counts(row.verdict for row in compared if row.verdict)
    )
    click.echo()
    print_text(f"{counted or 'nothing was compared'}; {'paired by pass' if found.paired else 'two runs, not paired'}")


def alike_differences(differences: "Sequence[Difference]") -> list[tuple[str, str, str]]:
    """The differences as rows of a table. An option that differs alike for several targets is one row."""
    from aiperf_core.names import words

    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in differences:
        target, dot, what = one.what.rpartition(" ")
        option = bool(dot) and "." in target and what in OPTIONS
        key = (what if option else one.what, one.left, one.right)
        alike.setdefault(key, []).extend([target] if option else [])
    return [
        (words(f"{what} of {_some(targets, 'target')}" if targets else what), words(left) or "-", words(right) or "-")
        for (what, left, right), targets in alike.items()
    ]


def _some(names: list[str], noun: str) -> str:
    """The names, or their number where they are many."""
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} {noun}s"


def _alike_rows(rows: "Sequence[Compared]") -> list[tuple[str, str, str]]:
    """Rows that were not compared for the same reason: the reason, the target, and the names."""
    from aiperf_core.names import words

    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        alike.setdefault((words(row.reason or ""), words(row.target)), []).append(words(row.implementation))
    ordered = sorted(alike.items(), key=lambda pair: [reason for reason, _ in alike].index(pair[0][0]))
    return [(reason, target, ", ".join(names)) for (reason, target), names in ordered]


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
