"""`aiperf list`: list the installed benchmarks."""

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.measuring import echo_json, installed, json_option, targets_option, warn_of_skipped
from aiperf_core.cli.tables import print_table
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget, TargetFilter, from_a_clone

EMPTY = f"No benchmarks are installed. Get some, {from_a_clone('ch07')}"
NONE_HERE = "None of the chosen benchmarks ({}) can run here. What is missing: aiperf doctor"


@click.command("list")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@targets_option
@click.option("--runnable", is_flag=True, help="Only benchmarks that can run on a device of this machine.")
@color_option
@json_option("a JSON array, with all details of each benchmark")
@click.pass_obj
def list_targets(
    plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter, runnable: bool, as_json: bool
) -> None:
    """List the installed benchmarks.

    A PATTERN is a group (ch07), a target (ch07.memory_access), a tag (tag:memory; see 'aiperf tags'), a glob
    (ch0*.*access), or a word in the name, the tags or the summary of targets (transpose). [default: all]

    \b
    Examples:
      aiperf list ch07
      aiperf list tag:memory --runnable
    """
    warn_of_skipped(plugins)
    wanted = installed(plugins, patterns, only)
    here = _devices(plugins, wanted) if runnable else None
    targets = [target for target in wanted if here is None or here.intersection(target.devices)]
    if as_json:
        from attrs import asdict

        echo_json([asdict(target) for target in targets])
    elif targets:
        rows = [(target.name, target.goal, ", ".join(target.devices), target.summary) for target in targets]
        print_table(("name", "goal", "devices", "summary"), rows)
    else:
        click.echo(NONE_HERE.format(len(wanted)) if wanted else EMPTY)


def _devices(plugins: Plugins, targets: list[InstalledTarget]) -> set[str]:
    """The devices of this machine. A plugin's device is probed only if one of the targets names it."""
    from aiperf_core.devices.discovery import of_plugins
    from aiperf_core.devices.probe import has_cuda_device

    named = {name for target in targets for name in target.devices}
    found = of_plugins({name: one for name, one in plugins.known_devices.items() if name in named})
    usable = {name for name, one in found.items() if not isinstance(one, str)}
    return {"cpu", *(("cuda",) if has_cuda_device() else ()), *usable}
