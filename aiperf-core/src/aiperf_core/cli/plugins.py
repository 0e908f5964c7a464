"""`aiperf plugins`: what is loaded, and what was set aside and why."""

from collections.abc import Mapping
from typing import Any

import click

from aiperf_core.cli.tables import print_table
from aiperf_core.contributions import Installed
from aiperf_core.plugins import Plugins


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, with the hooks that each implements.")
@click.pass_obj
def plugins(plugins: Plugins, as_json: bool) -> None:
    """List the plugins that are loaded, and those set aside with the reason."""
    if as_json:
        import json

        from attrs import asdict

        loaded = [asdict(one) for one in plugins.loaded]
        set_aside = [asdict(one) for one in plugins.set_aside]
        devices = [_flat(one) for one in plugins.devices.values()]
        executors = [_flat(one) for one in plugins.executors.values()]
        document = {"loaded": loaded, "devices": devices, "executors": executors, "set_aside": set_aside}
        click.echo(json.dumps(document, indent=2))
        return
    rows = [(one.distribution, one.version, one.entry_point, _counted(one.contributes)) for one in plugins.loaded]
    print_table(("PLUGIN", "VERSION", "ENTRY POINT", "CONTRIBUTES"), rows)
    for one in plugins.loaded:
        for note in one.notes:
            click.echo(f"note on plugin {one.distribution} {one.version}: {note}")
    for skipped in plugins.set_aside:
        click.echo(str(skipped))
    click.echo()
    known = [(one.record.name, one.record.summary, one.distribution) for one in plugins.devices.values()]
    print_table(("DEVICE", "SUMMARY", "PLUGIN"), known)
    click.echo()
    starters = [(one.record.name, one.record.summary, one.distribution) for one in plugins.executors.values()]
    print_table(("EXECUTOR", "SUMMARY", "PLUGIN"), starters)


def _flat(installed: Installed[Any]) -> dict[str, Any]:
    """A record and where it comes from, as one object."""
    from attrs import asdict

    return {**asdict(installed.record), "distribution": installed.distribution, "version": installed.version}


def _counted(contributes: Mapping[str, int]) -> str:
    """How much of what, as in `targets 12, commands 1`."""
    return ", ".join(f"{name} {count}" for name, count in contributes.items() if count) or "-"
