"""`aiperf ch07`: the chapter's diagnostics."""

from typing import TYPE_CHECKING, Any

import click

from aiperf_core.errors import ExitCode, UsageError
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.targets import InstalledTarget


@click.group("ch07")
def ch07() -> None:
    """Look at how kernels meet the memory system."""


@ch07.command("widths")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@click.option("--arch", default="sm_90", show_default=True, help="The architecture to compile for.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def widths(plugins: Plugins, patterns: tuple[str, ...], arch: str, as_json: bool) -> ExitCode:
    """Show which memory instructions the compiler made, and whether they are those that the lessons speak of.

    Needs no GPU. A PATTERN is as in `aiperf list`; without one, all targets of the chapter. Exits with 1 where an
    instruction that was promised is missing. Promises are those for sm_90.
    """
    from attrs import asdict

    from aiperf_ch07.sass import kernels_of

    chosen = [one.target for one in plugins.select(patterns or ("ch07",))]
    kernels = [code for target in chosen for code in kernels_of(target.name, target.module, arch)]
    if as_json:
        _print_json({"arch": arch, "kernels": [asdict(one) for one in kernels]})
    else:
        for one in kernels:
            counts = ", ".join(f"{count} {name}" for name, count in one.counts.items())
            click.echo(f"{one.target}  {one.kernel}: {counts or 'none'}")
            if one.missing:
                click.echo(f"  promised and not there: {', '.join(one.missing)}")
    return ExitCode.FAILED if any(one.missing for one in kernels) else ExitCode.OK


@ch07.command("stride-sweep")
@click.option("--device", type=click.Choice(("cpu", "cuda")), default="cuda", show_default=True)
@click.option("--mib", type=click.IntRange(min=1), help="How much to read. [default: 256 on a CPU, 1024 on a GPU]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def stride_sweep(device: str, mib: int | None, as_json: bool) -> None:
    """Measure bandwidth against the stride of accesses and their width.

    Every byte is read once, whatever the stride: what falls is the part of each line, or sector, that is used while it
    is there.
    """
    from attrs import asdict

    from aiperf_ch07.stride_sweep import STRIDES, WIDTHS, sweep

    points = list(sweep(device, mib and mib << 20))
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
    """Count sectors per request, cache hits and bank conflicts of a target's kernels, with Nsight Compute.

    Prints the predicted sectors beside the counted ones. The prediction comes from the addresses of a warp at the
    default sizes. Needs a GPU, `ncu`, and the right to read the GPU's counters. Clocks are left as they are.
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
