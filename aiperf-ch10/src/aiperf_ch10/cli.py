"""`aiperf ch10`: the means of pipelines that a GPU has, and the stages that they need."""

import json

import click
from attrs import asdict, evolve

from aiperf_core.cli.tables import print_table


@click.group("ch10", context_settings={"help_option_names": ["-h", "--help"]})
def ch10() -> None:
    """Show which pipelines a GPU allows, and how deep they are."""


@ch10.command("pipelines")
@click.option("--arch", metavar="ARCH", help="Another architecture than that of the GPU, such as sm_100.")
@click.option("--gb-per-s", type=click.FloatRange(min=1), metavar="RATE", help="Another rate of memory, in GB/s.")
@click.option(
    "--latency-ns",
    type=click.FloatRange(min=1),
    metavar="TIME",
    default=800,
    show_default=True,
    help="Latency of a busy memory.",
)
@click.option(
    "--blocks",
    type=click.IntRange(min=1),
    metavar="COUNT",
    default=1,
    show_default=True,
    help="Blocks on a multiprocessor.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def pipelines(arch: str | None, gb_per_s: float | None, latency_ns: float, blocks: int, as_json: bool) -> None:
    """Show the means of pipelines that a GPU has, and stage depths.

    The depth is by Little's law: a multiprocessor must have its share of the memory's rate times the latency on its
    way, in all stages but the one that is in use. An unloaded memory answers in 500 to 600 ns, a busy one later.
    Without a GPU the figures are those of an H200.
    """
    from aiperf_ch10.pipelines import H200, MEANS, capability_of, depths, in_flight, this_gpu
    from aiperf_core.errors import SkipError

    gpu, missing = H200, ""
    try:
        gpu = this_gpu()
    except SkipError as error:
        missing = f"No GPU can be asked: {error}. These figures are those of {H200.name}."
    gpu = evolve(gpu, arch=arch or gpu.arch, bytes_per_s=gb_per_s * 1e9 if gb_per_s else gpu.bytes_per_s)
    capability, latency_s = capability_of(gpu.arch), latency_ns / 1e9
    needed, stages = in_flight(gpu, latency_s), list(depths(gpu, latency_s, blocks))
    if as_json:
        means = [asdict(one) | {"here": one.is_in(capability)} for one in MEANS]
        document = {
            "gpu": asdict(gpu),
            "missing": missing,
            "means": means,
            "bytes_in_flight": needed,
            "depths": [asdict(one) for one in stages],
        }
        click.echo(json.dumps(document, indent=2))
        return
    rows = [(one.name, "yes" if one.is_in(capability) else "no", one.does, one.target or "-") for one in MEANS]
    print_table(("means", gpu.arch, "what it does", "shown by"), rows)
    click.echo(
        f"\n{gpu.bytes_per_s / 1e12:.2f} TB/s x {latency_ns:.0f} ns / {gpu.multiprocessors} multiprocessors: "
        f"{needed / 1024:.0f} KiB on their way in each"
    )
    heads = ("stage, KiB", "stages", "shared memory of a block, KiB", f"{blocks} on a multiprocessor")
    print_table(
        heads,
        [
            (one.stage_bytes >> 10, one.stages, one.shared_bytes >> 10, "fits" if one.fits else "does not fit")
            for one in stages
        ],
    )
    if missing:
        click.echo(f"\n{missing}")
