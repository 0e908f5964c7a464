"""`aiperf ch02`: what the machine is made of, and how its GPUs reach each other."""

import json

import click
from attrs import asdict

from aiperf_core.cli.audit_view import print_audit
from aiperf_core.cli.tables import print_table

JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
ACCESS = {True: "yes", False: "no", None: "unknown"}


@click.group("ch02", context_settings={"help_option_names": ["-h", "--help"]})
def ch02() -> None:
    """Show the hardware of this machine and the links of its GPUs."""


@ch02.command("hardware-info")
@JSON
def hardware_info(as_json: bool) -> None:
    """Show processors, caches, memory and GPUs, with advice. Works without a GPU, and changes nothing."""
    from aiperf_ch02.hardware_info import report

    print_audit(report(), as_json)


@ch02.command("topology")
@JSON
def topology(as_json: bool) -> None:
    """Show the links between GPUs, and the processors near each.

    Links are NVLink, PCIe and peer access.

    NV18 is 18 NVLinks. Without NVLink, PIX, PXB, PHB, NODE and SYS say where the paths over PCIe meet, from near to
    far.
    """
    from aiperf_ch02.topology import topology as find

    found = find()
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    if found.gpus:
        rows = [
            (one.index, one.name, one.bus_id, one.nvlinks, "unknown" if one.node is None else one.node, one.cpus)
            for one in found.gpus
        ]
        print_table(("GPU", "name", "PCI address", "NVLinks", "NUMA node", "near CPUs"), rows)
    if found.pairs:
        click.echo()
        short = {(one.source, one.target): one.short for one in found.pairs}
        numbers = [one.index for one in found.gpus]
        lines = [(f"GPU {row}", *(short.get((row, column), "-") for column in numbers)) for row in numbers]
        print_table(("", *(f"GPU {column}" for column in numbers)), lines)
        click.echo()
        paths = [
            (f"{one.source} to {one.target}", _path(one.nvlinks, one.through_switch), one.pcie, ACCESS[one.peer_access])
            for one in found.pairs
        ]
        print_table(("pair", "NVLink", "PCIe", "peer access"), paths)
    if found.missing:
        click.echo(("\n" if found.gpus else "") + found.missing)


def _path(nvlinks: int, through_switch: bool) -> str:
    """The NVLinks of a pair in words."""
    if not nvlinks:
        return "none"
    return f"{nvlinks} {'through switches' if through_switch else 'direct'}"
