"""`aiperf reproduce`: repeat a stored run and compare the verdicts."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.bundles import ADDRESS, Seals, verified
from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import json_option, out_option, quiet_option, server_ahead, tier_option
from aiperf_core.names import words
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.results.address import Address


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
    from aiperf_core.cli import result_screen
    from aiperf_core.cli.resuming import INTERRUPTED, print_resume_hint, run_to_end
    from aiperf_core.cli.run_view import RunView, consoles
    from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
    from aiperf_core.harness.run.request import reproduction
    from aiperf_core.report.reproduction import view
    from aiperf_core.results import jsontext
    from aiperf_core.stats import reproduce as rules

    seals.report()  # before the run, which takes minutes
    plan = reproduction(plugins, what, tier)
    for note in [*plan.notes, *plan.missing.values()]:
        click.echo(f"note   {words(note)}", err=True)
    name = what.target or what.bundle.path.resolve().name
    new = NewBundle(name=name, out=out, reproduces=plan.reproduces)
    _, err = consoles()
    with RunView(err, quiet=quiet) as progress:
        run = BundleRun(server, plugins, plan.resolved, new, progress)
        code = run_to_end(run, None)
    print_resume_hint(run)
    if code == INTERRUPTED or run.bundle is None:
        return INTERRUPTED
    found = rules.judge(what, run.bundle, plan.missing)
    code = found.exit_code(strict=strict)
    if as_json:
        consoles()[0].write(jsontext.dumps(rules.document(found, str(what), str(run.bundle.path), code)))
    else:
        result_screen.show(view(found, str(what), str(run.bundle.path), strict=strict))
    return code
