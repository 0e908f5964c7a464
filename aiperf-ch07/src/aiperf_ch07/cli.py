"""`aiperf ch07`: the chapter's diagnostics."""

from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.measuring import targets_option
from aiperf_core.cli.tables import print_table
from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import TargetFilter

if TYPE_CHECKING:
    from aiperf_core.targets import InstalledTarget


@click.group("ch07")
def ch07() -> None:
    """Show how kernels access memory."""


@ch07.command("widths")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@targets_option
@click.option("--arch", default="sm_90", show_default=True, metavar="ARCH", help="The architecture to compile for.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def widths(plugins: Plugins, patterns: tuple[str, ...], only: TargetFilter, arch: str, as_json: bool) -> ExitCode:
    """Show the memory instructions of compiled kernels.

    MISSING are instructions that a target promises for sm_90 and its machine code lacks. Needs no GPU. A PATTERN is as
    in 'aiperf list'. [default: ch07]

    Exit code 1: an instruction is missing.
    """
    from attrs import asdict

    from aiperf_ch07.sass import kernels_of

    chosen = [one.target for one in plugins.select(patterns or ("ch07",), only)]
    kernels = [code for target in chosen for code in kernels_of(target.name, target.module, arch)]
    if as_json:
        _print_json({"arch": arch, "kernels": [asdict(one) for one in kernels]})
    else:
        rows = [(one.target, one.kernel, _counted(one.counts), ", ".join(one.missing)) for one in kernels]
        # MISSING only where the machine code breaks a promise.
        width = 4 if any(one.missing for one in kernels) else 3
        print_table(("target", "kernel", "instructions", "missing")[:width], [row[:width] for row in rows])
    return ExitCode.FAILED if any(one.missing for one in kernels) else ExitCode.OK


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


@ch07.command("stride-sweep")
@click.option(
    "-d",
    "--device",
    type=click.Choice(("cpu", "cuda")),
    help="Device to measure. [default: the GPU, if there is one]",
)
@click.option(
    "--mib",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="MiB to read at a time. [default: 256 on a CPU, 1024 on a GPU]",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def stride_sweep(device: str | None, mib: int | None, as_json: bool) -> None:
    """Measure bandwidth by the stride and width of accesses.

    Every byte is read once at every stride. With a larger stride, less of each cache line or sector is used before the
    line is evicted, so the bandwidth falls.
    """
    from attrs import asdict

    from aiperf_ch07.stride_sweep import STRIDES, WIDTHS, sweep

    points = list(sweep(device, mib and mib << 20))
    device = points[0].device
    if as_json:
        _print_json({"device": device, "points": [asdict(one) for one in points]})
        return
    rates = {(one.width_bytes, one.stride): one.bytes_per_s for one in points}
    click.echo("GB/s on " + device + "".join(f"{f'{width} bytes':>12}" for width in WIDTHS))
    for stride in STRIDES:
        cells = "".join(f"{rates[width, stride] / 1e9:>12.1f}" for width in WIDTHS)
        click.echo(f"{f'stride {stride}':<{8 + len(device)}}{cells}")


@ch07.command("access-report")
@click.argument("target_pattern", metavar="TARGET[:IMPLEMENTATION]")
@click.option("--set", "params", multiple=True, metavar="NAME=VALUE", help="Another size than that of a run.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def access_report(plugins: Plugins, target_pattern: str, params: tuple[str, ...], as_json: bool) -> None:
    """Count sectors, cache hits and bank conflicts of kernels.

    Prints the predicted sectors per request beside the counted sectors. The prediction comes from the addresses of a
    warp at the default sizes. Needs a GPU, 'ncu', and the right to read the GPU's counters. Clocks are not locked.
    """
    from attrs import asdict

    from aiperf_ch07.access_patterns import predicted
    from aiperf_ch07.access_report import METRICS, report
    from aiperf_core.loading import load_benchmark

    selections = plugins.select([target_pattern])
    if len(selections) != 1:
        raise UsageError(
            f"{target_pattern!r} reaches {len(selections)} targets; a report is about one, such as ch07.transpose"
        )
    target, asked = selections[0].target, selections[0].implementations
    names = _implementations(load_benchmark(target), target, asked)
    launches = [one for name in names for one in report(target.name, target.module, name, params)]
    if as_json:
        rows = [
            {
                **asdict(one),
                "sectors_per_load": one.sectors_per_load,
                "sectors_per_store": one.sectors_per_store,
                "predicted_sectors_per_load": predicted(target.name, one.kernel).sectors_per_load,
                "predicted_sectors_per_store": predicted(target.name, one.kernel).sectors_per_store,
            }
            for one in launches
        ]
        _print_json({"target": target.name, "launches": rows})
        return
    meanings = {name: meaning for name, _, meaning in METRICS}
    for one in launches:
        click.echo(f"{target.name}:{one.implementation}  {one.kernel}")
        pattern = predicted(target.name, one.kernel)
        for what, counted, expected in (
            ("load", one.sectors_per_load, pattern.sectors_per_load),
            ("store", one.sectors_per_store, pattern.sectors_per_store),
        ):
            told = "not predicted" if expected is None else f"predicted {_shown(expected)}"
            click.echo(f"  sectors per {what} request: {_shown(counted)}, {told}")
        for name, value in one.counters.items():
            click.echo(f"  {name:<20}{_shown(value):>18}  {meanings[name]}")


def _implementations(bench: Any, target: "InstalledTarget", asked: frozenset[str]) -> list[str]:
    names = [one.name for one in bench.implementations_on("cuda") if one.role != "yardstick"]
    unknown = sorted(asked - set(names))
    if unknown or not names:
        raise UsageError(
            f"{target.name!r} has no implementation {', '.join(map(repr, unknown))} on cuda; "
            f"it has {', '.join(names) or 'none'}"
        )
    return [name for name in names if name in (asked or names)]


def _shown(value: float | None) -> str:
    return "not counted" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _print_json(document: dict[str, Any]) -> None:
    import json

    click.echo(json.dumps(document, indent=2))
