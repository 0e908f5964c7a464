"""`aiperf ch06`: how many blocks a multiprocessor holds, and what the size of a block changes."""

import json
from typing import TYPE_CHECKING

import click
from attrs import asdict

from aiperf_core import units
from aiperf_core.cli.tables import print_table

if TYPE_CHECKING:
    from aiperf_core.kernels import Occupancy
    from aiperf_core.plugins import Plugins

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
LIMITS = ("threads", "blocks", "registers", "shared memory")
HEADS = ("blocks an SM", "occupancy", "limited by")


@click.group("ch06", context_settings={"help_option_names": ["-h", "--help"]})
def ch06() -> None:
    """Show what limits the blocks on a multiprocessor."""


@ch06.command("occupancy")
@click.argument("target_pattern", metavar="[TARGET]", required=False)
@click.option("--threads", type=int, metavar="COUNT", default=256, show_default=True, help="Threads of a block.")
@click.option("--registers", type=int, metavar="COUNT", default=32, show_default=True, help="Registers of a thread.")
@click.option(
    "--shared-bytes",
    type=int,
    metavar="BYTES",
    default=0,
    show_default=True,
    help="Shared memory of a block, in bytes.",
)
@click.option(
    "--arch", metavar="ARCH", default="sm_90", show_default=True, help="The architecture, such as sm_80 or sm_90a."
)
@JSON
@click.pass_obj
def occupancy(
    plugins: "Plugins",
    target_pattern: str | None,
    threads: int,
    registers: int,
    shared_bytes: int,
    arch: str,
    as_json: bool,
) -> None:
    """Show which resource limits the blocks of an SM.

    The resources are registers, shared memory, threads and places for blocks.

    For a TARGET, its CUDA and Triton kernels are compiled: registers, static shared memory and launch bounds are then
    theirs, --shared-bytes is dynamic shared memory on top, and --threads is for kernels without launch bounds. Needs no
    GPU.
    """
    from aiperf_ch06.blocks import Needs, needs_of
    from aiperf_core.kernels import occupancy as allowed

    found = [Needs("this block", threads, registers, shared_bytes)]
    if target_pattern:
        found = needs_of(plugins, target_pattern, arch, threads, shared_bytes)
    lines = [(one, allowed(arch, one.threads, one.registers, one.shared_bytes)) for one in found]
    if as_json:
        click.echo(json.dumps([asdict(one) | _document(blocks) for one, blocks in lines], indent=2))
        return
    rows = [
        (one.kernel, one.threads, one.registers, one.shared_bytes, *(blocks.by.get(name, "-") for name in LIMITS))
        for one, blocks in lines
    ]
    click.echo(f"Blocks on a multiprocessor of {arch} that each resource allows:")
    print_table(("kernel", "block", "registers", "shared B", *(f"by {name}" for name in LIMITS)), rows)
    click.echo()
    print_table(("kernel", *HEADS), [(one.kernel, *_shown(blocks)) for one, blocks in lines])


@ch06.command("block-size")
@click.option(
    "--registers",
    type=int,
    metavar="COUNT",
    default=32,
    show_default=True,
    help="Registers of a thread, of the arithmetic.",
)
@click.option("--arch", metavar="ARCH", default="sm_90", show_default=True, help="The architecture, of the arithmetic.")
@click.option(
    "--mib",
    type=click.IntRange(min=1),
    metavar="SIZE",
    default=1024,
    show_default=True,
    help="The size of an array in MiB.",
)
@JSON
def block_size(registers: int, arch: str, mib: int, as_json: bool) -> None:
    """Sweep the threads of a block.

    Shows blocks of a multiprocessor, occupancy, and the rate of additions.

    Two kernels add vectors, with a value a thread and with four, so that 4 and 16 bytes are in flight in each. Rates
    need a GPU; without one the occupancy is shown alone. Blocks of few threads run out of places for blocks, and
    large ones leave warps idle where a block does not fit any more.
    """
    from aiperf_ch06.blocks import KERNELS, SIZES, rates
    from aiperf_core.errors import SkipError
    from aiperf_core.kernels import occupancy as allowed

    measured, missing = {}, ""
    try:
        measured = rates(mib << 20)
    except SkipError as error:
        missing = f"rates were not measured: {error}"
    lines = [(threads, allowed(arch, threads, registers), measured.get(threads, {})) for threads in SIZES]
    if as_json:
        rows = [{"threads": threads, "bytes_per_s": found} | _document(blocks) for threads, blocks, found in lines]
        click.echo(json.dumps({"arch": arch, "registers": registers, "missing": missing, "sizes": rows}, indent=2))
        return
    click.echo(f"{registers} registers a thread on {arch}:")
    heads = (*HEADS, *(f"{name}, GB/s" for name in KERNELS)) if measured else HEADS
    print_table(
        ("block", *heads),
        [
            (threads, *_shown(blocks), *(f"{found[name] / 1e9:.0f}" for name in found))
            for threads, blocks, found in lines
        ],
    )
    if missing:
        click.echo(f"\n{missing}")


def _shown(blocks: "Occupancy") -> tuple[object, ...]:
    return blocks.blocks, units.percent(blocks.share), " and ".join(blocks.limiters)


def _document(blocks: "Occupancy") -> dict[str, object]:
    return asdict(blocks) | {"limiters": list(blocks.limiters)}
