"""`aiperf plugins`: list loaded and skipped plugins."""

from collections.abc import Mapping
from typing import Any

import click

from aiperf_core.cli.measuring import echo_json, json_option
from aiperf_core.cli.tables import print_table
from aiperf_core.contributions import Installed
from aiperf_core.plugins import Plugins


@click.command("plugins")
@json_option("a JSON object, with the hooks that each plugin implements")
@click.pass_obj
def plugins(plugins: Plugins, as_json: bool) -> None:
    """List the loaded plugins, and the skipped plugins with the reason."""
    if as_json:
        from attrs import asdict

        loaded = [asdict(one) for one in plugins.loaded]
        set_aside = [asdict(one) for one in plugins.set_aside]
        devices = [_flat(one) for one in plugins.devices.values()]
        executors = [_flat(one) for one in plugins.executors.values()]
        formats = [_flat(one) for one in plugins.formats.values()]
        analyses = [_flat(one) for one in plugins.analyses.values()]
        document = {
            "loaded": loaded,
            "devices": devices,
            "executors": executors,
            "formats": formats,
            "analyses": analyses,
            "set_aside": set_aside,
        }
        echo_json(document)
        return
    rows = [(one.distribution, one.version, one.entry_point, _counted(one.contributes)) for one in plugins.loaded]
    print_table(("plugin", "version", "entry point", "contributes"), rows)
    for one in plugins.loaded:
        for note in one.notes:
            click.echo(f"note on plugin {one.distribution} {one.version}: {note}")
    for skipped in plugins.set_aside:
        click.echo(str(skipped))
    kinds: Mapping[str, Mapping[str, Installed[Any]]] = {
        "device": plugins.devices,
        "executor": plugins.executors,
        "format": plugins.formats,
        "analysis": plugins.analyses,
    }
    for head, installed in kinds.items():
        if not installed:
            continue
        click.echo()
        known = [(one.record.name, one.record.summary, one.distribution) for one in installed.values()]
        print_table((head, "summary", "plugin"), known)


def _flat(installed: Installed[Any]) -> dict[str, Any]:
    """A record with its distribution, as one object."""
    from attrs import asdict

    return {**asdict(installed.record), "distribution": installed.distribution, "version": installed.version}


def _counted(contributes: Mapping[str, int]) -> str:
    """The number of records by hook, as in `targets 12, commands 1`."""
    return ", ".join(f"{name} {count}" for name, count in contributes.items() if count) or "-"
