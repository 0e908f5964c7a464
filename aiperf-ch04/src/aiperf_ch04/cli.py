"""`aiperf ch04`: the chapter's diagnostics."""

import json
from typing import Any

import click
from attrs import asdict

from aiperf_core import units
from aiperf_core.cli.measuring import FiniteRange
from aiperf_core.cli.tables import print_table

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object, in SI units.")
DEVICE = click.option(
    "-d",
    "--device",
    type=click.Choice(("cpu", "cuda")),
    help="Device to measure. [default: GPUs, if there are any]",
)
RANKS = click.option(
    "--ranks",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    metavar="COUNT",
    help="Number of ranks, one on each GPU.",
)


@click.group("ch04", context_settings={"help_option_names": ["-h", "--help"]})
def ch04() -> None:
    """Diagnose communication: collectives, stragglers, NCCL, plans."""


@ch04.command("comm-sweep")
@DEVICE
@RANKS
@click.option(
    "--collective",
    "names",
    type=click.Choice(COLLECTIVES),
    metavar="NAME",
    multiple=True,
    help=f"Only this: {', '.join(COLLECTIVES)}. May be repeated.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1024),
    metavar="BYTES",
    help="The largest message. [default: 4 MiB, 256 MiB on GPUs]",
)
@JSON
def comm_sweep(device: str | None, ranks: int, names: tuple[str, ...], max_bytes: int | None, as_json: bool) -> None:
    """Time collectives by message size, and fit a cost model.

    Times are those of the slowest rank, by its own clock. ALG is the message over the time; BUS is what a link carries,
    to be compared with the link. ALPHA is what a call costs without bytes, RATE what each further byte costs, inverted.
    """
    from aiperf_ch04 import comm_sweep as study

    points = study.sweep(device, ranks, names or COLLECTIVES, max_bytes)
    fits = study.fit(points)
    if as_json:
        _print_json({"ranks": ranks, "points": [asdict(one) for one in points], "fits": [asdict(one) for one in fits]})
        return
    rows = [
        (
            one.collective,
            units.size(one.message_bytes),
            units.seconds(one.time_s),
            units.rate(one.alg_bytes_per_s, "B/s"),
            units.rate(one.bus_bytes_per_s, "B/s"),
        )
        for one in points
    ]
    print_table(("collective", "message", "time", "ALG", "BUS"), rows)
    click.echo()
    models = [
        (
            one.collective,
            units.seconds(one.alpha_s),
            units.rate(one.bytes_per_s, "B/s") if one.bytes_per_s else "-",
            units.percent(one.worst_relative_error),
        )
        for one in fits
    ]
    print_table(("collective", "ALPHA", "RATE", "worst error"), models)


@ch04.command("nccl-env")
@JSON
def nccl_env(as_json: bool) -> None:
    """Show NCCL's settings in a run, their sources and effects."""
    from aiperf_ch04 import nccl_env as study

    found, version = study.settings(), study.nccl_version()
    if as_json:
        _print_json({"nccl": version, "settings": [asdict(one) for one in found]})
        return
    click.echo(f"NCCL {version or 'is not here: torch finds no GPU'}\n")
    for one in found:
        click.echo(f"{one.name}={one.value}  [{one.source}]\n  {one.meaning}")


@ch04.command("comm-init")
@DEVICE
@RANKS
@JSON
def comm_init(device: str | None, ranks: int, as_json: bool) -> None:
    """Time the start and end of a communicator and its groups.

    Times are those of the slowest rank, the median of a few repeats.
    """
    from aiperf_ch04 import comm_init as study

    backend, steps = study.steps(device, ranks)
    if as_json:
        _print_json({"backend": backend, "ranks": ranks, "steps": [asdict(one) for one in steps]})
        return
    click.echo(f"{backend}, {ranks} ranks\n")
    print_table(("step", "time"), [(one.name, units.seconds(one.time_s)) for one in steps])


@ch04.command("straggler")
@DEVICE
@RANKS
@click.option(
    "--slow",
    type=click.IntRange(min=0),
    metavar="RANK",
    help="Slow this rank down, to see what a straggler looks like.",
)
@click.option(
    "--slow-by-ms",
    type=FiniteRange(min=0),
    default=20.0,
    show_default=True,
    metavar="MILLISECONDS",
    help="How much --slow adds to each step.",
)
@JSON
def straggler(device: str | None, ranks: int, slow: int | None, slow_by_ms: float, as_json: bool) -> None:
    """Find the rank for which the others wait.

    Each rank is timed on equal work and an all-reduce.
    """
    from aiperf_ch04 import straggler as study

    found = study.ranks_of(device, ranks, slow, slow_by_ms / 1e3)
    late = [one.rank for one in found if one.late]
    if as_json:
        _print_json({"ranks": [asdict(one) for one in found], "late": late})
        return
    rows = [
        (one.rank, units.seconds(one.work_s), units.seconds(one.collective_s), "late" if one.late else "")
        for one in found
    ]
    print_table(("rank", "work", "collective", ""), rows)
    if late:
        click.echo(f"\nThe others wait for rank {', '.join(map(str, late))}.")


@ch04.command("doctor")
@JSON
def doctor(as_json: bool) -> None:
    """Show the transports between ranks, with advice."""
    from aiperf_ch04 import doctor as study

    found = study.findings()
    if as_json:
        _print_json({"findings": [asdict(one) for one in found]})
        return
    for one in found:
        click.echo(f"{one.name:<14}{one.value}" + (f"\n{'':<14}-> {one.advice}" if one.advice else ""))


@ch04.command("plan")
@click.option(
    "--parameters",
    type=FiniteRange(min=1),
    required=True,
    metavar="COUNT",
    help="Parameters of the model, such as 7e9.",
)
@click.option("--layers", type=click.IntRange(min=1), required=True, metavar="COUNT", help="Layers of the model.")
@click.option("--width", type=click.IntRange(min=1), required=True, metavar="NUMBER", help="Hidden size of the model.")
@click.option(
    "--sequence",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    metavar="TOKENS",
    help="Tokens of a sequence.",
)
@click.option(
    "--batch", type=click.IntRange(min=1), default=512, show_default=True, metavar="COUNT", help="Sequences of a step."
)
@click.option(
    "--micro-batch",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="COUNT",
    help="Sequences at a time.",
)
@click.option("--gpus", type=click.IntRange(min=1), required=True, metavar="COUNT", help="Number of GPUs.")
@click.option(
    "--memory", type=FiniteRange(min=1), default=80e9, metavar="BYTES", help="Bytes of a GPU. [default: 80e9]"
)
@click.option(
    "--flop-rate",
    type=FiniteRange(min=1),
    required=True,
    metavar="RATE",
    help="Measured FLOP/s of bf16 matrix products.",
)
@click.option(
    "--link-rate",
    type=FiniteRange(min=1),
    required=True,
    metavar="RATE",
    help="Measured bytes per second of a link, one way.",
)
@JSON
def plan(gpus: int, memory: float, flop_rate: float, link_rate: float, as_json: bool, **of_model: float) -> None:
    """List splits of a training run over GPUs, fastest first.

    Data, tensor and pipeline parallelism; ZeRO stage 1; 1F1B. Memory as by Rajbhandari et al. (2020) and Korthikanti et
    al. (2022), times as by Shoeybi et al. (2019) and Narayanan et al. (2021), without any overlap.
    """
    from aiperf_ch04 import plan as study

    found = study.plans(study.Model(**of_model), gpus, memory, flop_rate, link_rate)  # type: ignore[arg-type]
    if as_json:
        _print_json({"gpus": gpus, "plans": [{**asdict(one), "step_s": one.step_s} for one in found]})
        return
    rows = [
        (
            one.data,
            one.tensor,
            one.pipeline,
            units.size(one.memory_bytes),
            units.seconds(one.step_s),
            units.seconds(one.compute_s),
            units.seconds(one.tensor_s + one.data_s),
        )
        for one in found
    ]
    print_table(("data", "tensor", "pipeline", "memory", "step", "compute", "links"), rows)


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2))
