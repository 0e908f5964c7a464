"""`aiperf ch04`: the chapter's diagnostics."""

import json
from typing import Any

import click
from attrs import asdict

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON object, in SI units.")
DEVICE = click.option(
    "-d",
    "--device",
    type=click.Choice(("cpu", "cuda")),
    help="Device to measure. [default: GPUs, if there are any]",
)
RANKS = click.option("--ranks", type=click.IntRange(min=2), default=2, show_default=True, help="How many; one a GPU.")


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
    "--max-bytes", type=click.IntRange(min=1024), help="The largest message. [default: 4 MiB, 256 MiB on GPUs]"
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
    click.echo(f"{'COLLECTIVE':<16}{'BYTES':>12}{'TIME us':>12}{'ALG GB/s':>12}{'BUS GB/s':>12}")
    for one in points:
        rates = f"{one.alg_bytes_per_s / 1e9:>12.3f}{one.bus_bytes_per_s / 1e9:>12.3f}"
        click.echo(f"{one.collective:<16}{one.message_bytes:>12,}{one.time_s * 1e6:>12.1f}{rates}")
    click.echo(f"\n{'COLLECTIVE':<16}{'ALPHA us':>12}{'RATE GB/s':>12}{'WORST ERROR':>14}")
    for fitted in fits:
        rate = f"{fitted.bytes_per_s / 1e9:.3f}" if fitted.bytes_per_s else "none"
        error = f"{fitted.worst_relative_error:.0%}"
        click.echo(f"{fitted.collective:<16}{fitted.alpha_s * 1e6:>12.1f}{rate:>12}{error:>14}")


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
    for one in steps:
        click.echo(f"{one.name:<20}{one.time_s * 1e3:>12.3f} ms")


@ch04.command("straggler")
@DEVICE
@RANKS
@click.option("--slow", type=click.IntRange(min=0), help="Slow this rank down, to see what a straggler looks like.")
@click.option("--slow-by-ms", type=click.FloatRange(min=0), default=20.0, show_default=True, help="With --slow.")
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
    click.echo(f"{'RANK':<6}{'WORK ms':>12}{'COLLECTIVE ms':>16}")
    for one in found:
        mark = "  late" if one.late else ""
        click.echo(f"{one.rank:<6}{one.work_s * 1e3:>12.3f}{one.collective_s * 1e3:>16.3f}{mark}")
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
@click.option("--parameters", type=click.FloatRange(min=1), required=True, help="Of the model, such as 7e9.")
@click.option("--layers", type=click.IntRange(min=1), required=True, help="Of the model.")
@click.option("--width", type=click.IntRange(min=1), required=True, help="Of the model, its hidden size.")
@click.option("--sequence", type=click.IntRange(min=1), default=4096, show_default=True, help="Tokens of a sequence.")
@click.option("--batch", type=click.IntRange(min=1), default=512, show_default=True, help="Sequences of a step.")
@click.option("--micro-batch", type=click.IntRange(min=1), default=1, show_default=True, help="Sequences at a time.")
@click.option("--gpus", type=click.IntRange(min=1), required=True, help="How many.")
@click.option("--memory", type=click.FloatRange(min=1), default=80e9, show_default=True, help="Bytes of a GPU.")
@click.option(
    "--flop-rate", type=click.FloatRange(min=1), required=True, help="Measured, of bf16 products, per second."
)
@click.option("--link-rate", type=click.FloatRange(min=1), required=True, help="Measured, bytes per second one way.")
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
    click.echo(f"{'DATA':>6}{'TENSOR':>8}{'PIPELINE':>10}{'GB':>8}{'STEP s':>10}{'COMPUTE s':>11}{'LINK s':>9}")
    for one in found:
        split = f"{one.data:>6}{one.tensor:>8}{one.pipeline:>10}{one.memory_bytes / 1e9:>8.1f}"
        click.echo(f"{split}{one.step_s:>10.3f}{one.compute_s:>11.3f}{one.tensor_s + one.data_s:>9.3f}")


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2))
