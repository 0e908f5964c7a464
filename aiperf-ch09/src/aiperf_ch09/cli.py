"""`aiperf ch09`: where arithmetic and not memory bounds the time."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from aiperf_core import units
from aiperf_core.cli.bundles import BUNDLE, verified
from aiperf_core.cli.tables import print_table
from aiperf_core.errors import UsageError

if TYPE_CHECKING:
    from aiperf_core.results import Address


@click.group("ch09", context_settings={"help_option_names": ["-h", "--help"]})
def ch09() -> None:
    """Show where arithmetic and not memory bounds the time."""


@ch09.command("ridge")
@click.argument("bundle", type=BUNDLE, metavar="[BUNDLE]", required=False)
@click.option(
    "--machine",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The output of 'aiperf ceilings --json' or 'aiperf probe --json'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@verified("bundle")
def ridge(bundle: "Address | None", machine: Path | None, as_json: bool) -> None:
    """Show the ridge points of a machine, from its ceilings.

    A ridge point is a rate of arithmetic divided by the rate of a memory, in operations for each byte. Work with fewer
    is bound by that memory. The columns n and rows say from which size on a product of square matrices, and one of some
    rows with a large weight, are bound by arithmetic. A BUNDLE has the ceilings that its run measured; a FILE of all
    ceilings has those of caches too.
    """
    from aiperf_ch09.ridge import MEMORIES, ceilings_in, ridges

    if (bundle is None) == (machine is None):
        raise UsageError("name a BUNDLE, such as latest, or a --machine FILE: aiperf ceilings --json > machine.json")
    ceilings: Mapping[str, Any] = ceilings_in(machine) if machine else {}
    if bundle is not None:
        ceilings = {one.device: asdict(one) for one in bundle.bundle.manifest.ceilings.values()}
        if not ceilings:
            raise UsageError(f"{bundle.bundle.path} has no ceilings; measure them first: aiperf ceilings")
    found = {device: list(ridges(one)) for device, one in ceilings.items()}
    if as_json:
        document = {device: [asdict(one) for one in several] for device, several in found.items()}
        click.echo(json.dumps(document, indent=2))
        return
    for number, (device, several) in enumerate(found.items()):
        memories = [name for name in MEMORIES.values() if name in several[0].per_byte]
        rows = [
            (
                f"{one.precision} {one.unit}",
                units.rate(one.flop_per_s, "FLOP/s"),
                *(_shown(one.per_byte[name]) for name in memories),
                _shown(one.square),
                _shown(one.batch),
            )
            for one in several
        ]
        click.echo(("\n" if number else "") + f"{device}: operations for each byte at the ridge")
        print_table(("unit", "rate", *memories, "n", "rows"), rows)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"
