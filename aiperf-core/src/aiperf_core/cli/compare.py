"""`aiperf compare`: what changed between two runs, or from one implementation to another."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.bundles import ADDRESS, verified
from aiperf_core.cli.ci import Ci, ci_options
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import json_option
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.measurements import Estimate
    from aiperf_core.report.comparison import Side
    from aiperf_core.results.address import Address
    from aiperf_core.stats.compare import Comparison


def _floor(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and 0 <= value < 1):
        raise UsageError(f"--floor takes a fraction from 0 to below 1, such as 0.01; got {value:g}.")
    return value


def _with_the_run_before(context: click.Context, _: click.Parameter, right: "Address | None") -> "Address":
    """The right side. Where only one run is named, it is the right one, and the left is the run before it."""
    if right is not None:
        return right
    given: Address = context.params["left"]
    context.params["left"] = _before(given)
    return given


def _before(right: "Address") -> "Address":
    """The last run before another in the same folder, with a result of a target of it. Raises UsageError for none."""
    from attrs import evolve

    from aiperf_core.results.listing import Run, bundles, moment

    path, began = right.bundle.path, moment(right.bundle.manifest.created)
    asked = {*right.targets}
    for run in bundles(path.resolve().parent):
        if isinstance(run, Run) and run.created < began:
            left = evolve(right, bundle=run.bundle)
            if asked & {*left.matching}:
                return left
    raise UsageError(
        f"no run before '{path}' has a result of the same targets, so there is nothing to compare it with. Name two: "
        "aiperf compare LEFT RIGHT"
    )


@click.command("compare")
@click.argument("left", type=ADDRESS, metavar="LEFT")
@click.argument("right", type=ADDRESS, metavar="[RIGHT]", required=False, callback=_with_the_run_before)
@click.option(
    "--floor",
    type=float,
    callback=_floor,
    metavar="FRACTION",
    help="The smallest difference that matters. [default: the runs' own, 0.01]",
)
@color_option
@json_option()
@result_file_option
@ci_options
@verified("left", "right", samples=lambda given: given["left"].implementation is not None)
@click.pass_obj
def compare(
    plugins: Plugins,
    left: "Address",
    right: "Address",
    floor: float | None,
    as_json: bool,
    out: Path | None,
    ci: Ci,
) -> ExitCode:
    """Compare two runs, targets or implementations: BUNDLE, BUNDLE:TARGET or BUNDLE:TARGET:IMPLEMENTATION.

    With one run, it is compared with the last run before it that has a result of the same targets.

    Differences of machines, software and options are shown first. A ratio above 1 means that RIGHT is faster. Rows that
    are not believed, or did other work, are listed and not compared.

    Exit code 4: a row became slower by more than the floor. 3: no row became slower, but a row that was believed in
    LEFT is INVALID or UNTRUSTED in RIGHT. 1: nothing could be compared.

    \b
    Examples:
      aiperf compare latest
      aiperf compare latest~1 latest
      aiperf compare latest~1:ch07.transpose latest:ch07.transpose --floor 0.03
    """
    from aiperf_core.cli import result_screen
    from aiperf_core.cli.run_view import consoles
    from aiperf_core.report.comparison import view
    from aiperf_core.results import jsontext
    from aiperf_core.stats.compare import compare as compared

    found = compared(left, right, floor)
    result = view(found, _side(left), _side(right))
    write_result(result, out)
    if as_json:
        screen, _ = consoles()
        screen.write(jsontext.dumps(_document(str(left), str(right), found)))
    else:
        result_screen.show(result)
    if ci.given:
        from aiperf_core.render.ci import cases_of_comparison

        ci.write(plugins, cases_of_comparison(found))
    return result.exit_code


def _side(address: "Address") -> "Side":
    from aiperf_core.report.comparison import Side
    from aiperf_core.report.result import Source

    bundle = address.bundle
    return Side(str(address), Source(str(bundle.path), str(bundle.path), bundle.manifest.created, ""))


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
