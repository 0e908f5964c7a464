"""`aiperf reproduce`: repeat a stored run and compare the verdicts."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core import units
from aiperf_core.cli.bundles import ADDRESS, Seals, verified
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import json_option, out_option, quiet_option, server_ahead, tier_option
from aiperf_core.cli.tables import print_table, print_text
from aiperf_core.names import words
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.cli.screen import Screen
    from aiperf_core.results.address import Address
    from aiperf_core.results.models import Row
    from aiperf_core.stats.reproduce import Reproduced, Reproduction


@click.command("reproduce")
@click.argument("what", type=ADDRESS, metavar="BUNDLE[:TARGET]")
@tier_option("Another tier, with its own budget. [default: the bundle's]", None)
@click.option("--strict", is_flag=True, help="A verdict also does not hold if the speedup differs.")
@out_option()
@color_option
@json_option()
@quiet_option
@verified("what", as_seals=True)
@click.pass_obj
def reproduce(
    plugins: Plugins,
    what: "Address",
    tier: str | None,
    strict: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
    seals: Seals,
) -> int:
    """Repeat a stored run into a new bundle, and report whether its verdicts hold.

    Implementations, sizes, device, tier and policy are those of the bundle. Seeds are drawn again. The report starts
    with the differences in machine, software, sources and options.

    Exit code 4: a verdict does not hold. 1: a row could not be run. 5: all other rows hold, and a row is now
    INCONCLUSIVE.

    \b
    Examples:
      aiperf reproduce latest
      aiperf reproduce results/monday:ch07.memory_access --tier standard
    """
    server = server_ahead()
    from aiperf_core.cli.resuming import INTERRUPTED, print_resume_hint, run_to_end
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
    from aiperf_core.harness.run.request import reproduction
    from aiperf_core.results import jsontext
    from aiperf_core.stats import reproduce as rules

    seals.report()  # before the run, which takes minutes
    plan = reproduction(plugins, what, tier)
    for note in [*plan.notes, *plan.missing.values()]:
        click.echo(f"note   {words(note)}", err=True)
    name = what.target or what.bundle.path.resolve().name
    new = NewBundle(name=name, out=out, reproduces=plan.reproduces)
    screen, err = consoles()
    with RunView(err, quiet=quiet) as view:
        run = BundleRun(server, plugins, plan.resolved, new, view)
        code = run_to_end(run, None)
    print_resume_hint(run)
    if code == INTERRUPTED or run.bundle is None:
        return INTERRUPTED
    found = rules.judge(what, run.bundle, plan.missing)
    code = found.exit_code(strict=strict)
    if as_json:
        screen.write(jsontext.dumps(rules.document(found, str(what), str(run.bundle.path), code)))
    else:
        click.echo(f"then   {words(str(what))}\nnow    {words(str(run.bundle.path))}\n")
        _print(screen, found, strict)
    return code


def _print(out: "Screen", found: "Reproduction", strict: bool) -> None:
    from aiperf_core.cli.result_screen import show_table
    from aiperf_core.report.comparison import difference_table

    if found.other_machine:
        print_text("ANOTHER KIND OF MACHINE: times will differ, and verdicts need not hold")
        click.echo()
    if found.differences:
        show_table(difference_table(found.differences, "then", "now"))
    else:
        print_text("machine, software, sources and options are the same")
    click.echo("")
    heads = ("target", "implementation", "then", "now", "ratio", "95 % interval", "verdict then", "now", "outcome")
    print_table(heads, [_cells(out, one) for one in found.rows])
    reasons = [
        (words(one.compared.target), words(one.compared.implementation), words(one.compared.reason))
        for one in found.rows
        if one.compared.reason
    ]
    if reasons:
        click.echo("")
        print_table(("target", "implementation", "why"), reasons)
    click.echo()
    print_text(_counts(found, strict))


def _cells(out: "Screen", one: "Reproduced") -> tuple[str, ...]:
    row = one.compared
    ratio = units.ratio_estimate(row.ratio) if row.ratio else units.Shown("", "")
    times = (_time(out, row.left), _time(out, row.right))
    verdicts = (_verdict(row.left), _verdict(row.right))
    return (
        words(row.target),
        words(row.implementation),
        *times,
        ratio.value,
        ratio.interval,
        *verdicts,
        one.outcome.value,
    )


def _time(out: "Screen", row: "Row | None") -> str:
    return out.look.text(units.time_estimate(row.time_s).value).plain if row and row.time_s else ""


def _verdict(row: "Row | None") -> str:
    if row is None:
        return "-"
    return f"{row.verdict.value} {units.ratio_estimate(row.speedup).value}" if row.speedup else row.verdict.value


def _counts(found: "Reproduction", strict: bool) -> str:
    from collections import Counter

    from aiperf_core.stats.reproduce import Outcome

    counted = Counter(one.outcome for one in found.rows)
    counts = ", ".join(f"{counted[one]} {one.value}" for one in Outcome if counted[one]) or "nothing was reproduced"
    return f"{counts} (--strict)" if strict else counts
