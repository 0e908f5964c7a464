"""`aiperf plugins`: what is loaded, and what was set aside and why."""

import click

from aiperf_core.cli.tables import print_table
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
        click.echo(json.dumps({"loaded": loaded, "set_aside": set_aside}, indent=2))
        return
    rows = [
        (one.distribution, one.version, one.entry_point, one.targets, one.commands, one.issues, one.attacks)
        for one in plugins.loaded
    ]
    print_table(("PLUGIN", "VERSION", "ENTRY POINT", "TARGETS", "COMMANDS", "ISSUES", "ATTACKS"), rows)
    for one in plugins.loaded:
        for note in one.notes:
            click.echo(f"note on plugin {one.distribution} {one.version}: {note}")
    for skipped in plugins.set_aside:
        click.echo(str(skipped))
