"""Prints an audit: its settings as a table, then the advice."""

import json
from collections.abc import Sequence

import click
from attrs import asdict

from aiperf_core.audit import Setting
from aiperf_core.cli.tables import print_table
from aiperf_core.units import plural


def print_audit(settings: Sequence[Setting], as_json: bool) -> None:
    """Print settings for people, or as a JSON object."""
    if as_json:
        click.echo(json.dumps({"settings": [asdict(setting) for setting in settings]}, indent=2))
        return
    marked = [("!" if setting.advice else "", setting.name, setting.value, setting.source) for setting in settings]
    print_table(("", "setting", "value", "source"), marked)
    advised = [setting for setting in settings if setting.advice]
    click.echo(f"\n{plural('setting', len(advised))} with advice{':' if advised else ''}")
    for setting in advised:
        click.echo(f"- {setting.name}: {setting.advice}")
