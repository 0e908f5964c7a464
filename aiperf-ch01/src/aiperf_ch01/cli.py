"""`aiperf ch01`: studies that are no benchmarks, because they have no baseline and variant to compare."""

import json
from typing import Any

import click
from attrs import asdict

from aiperf_core import units
from aiperf_core.cli.bundles import ADDRESS, verified
from aiperf_core.cli.measuring import FiniteRange
from aiperf_core.cli.screen import consoles
from aiperf_core.cli.tables import print_table
from aiperf_core.plugins import Plugins
from aiperf_core.results import Address

DEVICE = click.option(
    "-d", "--device", type=click.Choice(("cpu", "cuda")), help="Where to measure. [default: the GPU, if there is one]"
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object, in SI units.")
AT_LEAST_ONE = click.IntRange(min=1)


@click.group("ch01", context_settings={"help_option_names": ["-h", "--help"]})
def ch01() -> None:
    """Study ways of timing, goodput and scaling."""


@ch01.command("pitfalls")
@DEVICE
@click.option(
    "--samples",
    type=click.IntRange(min=3),
    default=50,
    show_default=True,
    metavar="COUNT",
    help="Calls timed in each way.",
)
@click.option(
    "-s",
    "--size",
    type=AT_LEAST_ONE,
    metavar="ROWS",
    help="Rows of the square matrices. [default: 2048 on a GPU, else 512]",
)
@JSON
def pitfalls(device: str | None, samples: int, size: int | None, as_json: bool) -> None:
    """Time one matrix product in several common ways.

    The ways are often taken for the same. The table shows how far their times are apart.
    """
    from aiperf_ch01 import pitfalls as study

    found = study.measure(device, samples, size)
    if as_json:
        _write({**asdict(found), "ways": [_way(one) for one in found.ways]})
        return
    work = f"{found.rows} x {found.rows} matrix product in {found.dtype} on {found.device}"
    _say(f"{work}, {samples} calls a way\n\n")
    rows = [
        (
            one.name,
            units.seconds(one.median_s),
            units.seconds(one.mean_s),
            units.percent(one.spread),
            f"{one.median_s / found.reference_s:.2f}x",
            one.what,
        )
        for one in found.ways
    ]
    _table(("way", "median", "mean", "spread", "of cold", "what is timed"), rows)
    _say("\nspread: the distance of the quartiles, as a part of the median.\n")


def _way(one: Any) -> dict[str, Any]:
    return {**asdict(one), "median_s": one.median_s, "mean_s": one.mean_s, "spread": one.spread}


@ch01.command("goodput-report")
@click.argument("bundle", type=ADDRESS, metavar="BUNDLE[:TARGET]")
@click.option("--price-per-hour", type=FiniteRange(min=0), metavar="PRICE", help="What an hour of this machine costs.")
@click.option(
    "--price-per-kwh",
    type=FiniteRange(min=0),
    metavar="PRICE",
    help="What a kilowatt hour costs, in the same currency.",
)
@JSON
@verified("bundle")
@click.pass_obj
def goodput_report(
    plugins: Plugins, bundle: Address, price_per_hour: float | None, price_per_kwh: float | None, as_json: bool
) -> None:
    """Show the rate, goodput, energy and price of results.

    A unit is what a target's cost declares: a sample, request or token; a call where the cost declares none. Goodput is
    the SOL time of the work at this machine's ceilings, as a fraction of the measured time. Energy was counted by the
    device during the run (tiers standard and audit); without it there is no price of energy.
    """
    from aiperf_ch01 import goodput

    found = goodput.report(bundle, plugins, goodput.Prices(price_per_hour, price_per_kwh))
    if as_json:
        _write({"results": [asdict(one) for one in found]})
        return
    rows = [
        (
            f"{one.target}:{one.implementation}",
            units.rate(one.units_per_s, ""),
            one.unit,
            "" if one.goodput is None else units.percent(one.goodput),
            "" if one.joules_per_unit is None else units.joules(one.joules_per_unit),
            "" if one.price_per_million is None else units.number(one.price_per_million),
        )
        for one in found
    ]
    _table(("result", "a second", "unit", "goodput", "energy a unit", "price a million"), rows)


@ch01.command("scaling")
@DEVICE
@click.option("--ranks", default="1,2,4", show_default=True, metavar="N,N,...", help="Processes, one a GPU.")
@click.option(
    "--width", type=AT_LEAST_ONE, metavar="NUMBER", help="Width of the layers. [default: 4096 on GPUs, else 512]"
)
@click.option(
    "--samples",
    type=AT_LEAST_ONE,
    metavar="COUNT",
    help="Samples of a rank in weak scaling. [default: 512 on GPUs, else 64]",
)
@click.option(
    "--steps", type=click.IntRange(min=3), default=30, show_default=True, metavar="COUNT", help="Steps that are timed."
)
@JSON
def scaling(device: str | None, ranks: str, width: int | None, samples: int | None, steps: int, as_json: bool) -> None:
    """Show how data-parallel training scales, weak and strong.

    Weak scaling: each rank has the samples of a single rank. Strong scaling: all ranks together have them. The time of
    a step is that of its slowest rank, measured within the ranks. Numbers of ranks above the number of GPUs are
    omitted, with a message.
    """
    from aiperf_ch01 import scaling as study

    found = study.measure(device, study.parse_ranks(ranks), width, samples, steps)
    if as_json:
        _write(asdict(found))
        return
    _say(f"data-parallel training on {found.device}, layers {found.width} wide\n\n")
    rows = [
        (
            one.kind,
            one.ranks,
            one.samples_per_rank,
            units.seconds(one.step_s),
            units.rate(one.samples_per_s, ""),
            units.percent(one.efficiency),
        )
        for one in found.points
    ]
    _table(("scaling", "ranks", "samples a rank", "step", "samples a second", "efficiency"), rows)
    for reason in found.left_out:
        _say(f"left out: {reason}\n")


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    print_table(heads, [[str(cell).strip() for cell in row] for row in rows])


def _say(text: str) -> None:
    out, _ = consoles()
    out.write(text)


def _write(document: dict[str, Any]) -> None:
    _say(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
