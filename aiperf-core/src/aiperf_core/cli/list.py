"""`aiperf list`: the benchmarks that are installed."""

import click

from aiperf_core.cli.tables import print_table
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget

EMPTY = "No benchmarks are installed. Get some: pip install aiperf-ch07"
NONE_HERE = "None of the benchmarks chosen ({}) can run here. What is missing: aiperf doctor"


@click.command("list")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@click.option("--runnable", is_flag=True, help="Only those with a device that this machine has.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with everything known of each.")
@click.pass_obj
def list_targets(plugins: Plugins, patterns: tuple[str, ...], runnable: bool, as_json: bool) -> None:
    """List the benchmarks that are installed.

    A PATTERN is a group (ch07), a target (ch07.memory_access), a tag (tag:memory) or a glob (ch0*.*access). Without one
    all are listed.
    """
    for skipped in plugins.set_aside:
        click.echo(str(skipped), err=True)
    wanted = [one.target for one in plugins.select(patterns)] if patterns else list(plugins.targets)
    here = _devices(plugins, wanted) if runnable else None
    targets = [target for target in wanted if here is None or here.intersection(target.devices)]
    if as_json:
        import json

        from attrs import asdict

        click.echo(json.dumps([asdict(target) for target in targets], indent=2))
    elif targets:
        rows = [(target.name, target.goal, ", ".join(target.devices), target.summary) for target in targets]
        print_table(("NAME", "GOAL", "DEVICES", "SUMMARY"), rows)
    else:
        click.echo(NONE_HERE.format(len(wanted)) if wanted else EMPTY)


def _devices(plugins: Plugins, targets: list[InstalledTarget]) -> set[str]:
    """The devices that are here; of plugins' devices, those that one of the targets names are looked for."""
    from aiperf_core.devices.discovery import of_plugins
    from aiperf_core.devices.probe import has_cuda_device

    named = {name for target in targets for name in target.devices}
    found = of_plugins({name: one for name, one in plugins.known_devices.items() if name in named})
    usable = {name for name, one in found.items() if not isinstance(one, str)}
    return {"cpu", *(("cuda",) if has_cuda_device() else ()), *usable}
