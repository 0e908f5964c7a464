"""The contents page of chapter 20."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "fast_matmul_search",
        "Seven products in place of eight, by a scheme that a search finds",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("gemm", "algorithms", "search", "technique-144"),
    )
    yield Target(
        "verified_search",
        "A generated kernel is verified at awkward sizes before it is measured",
        goal="speed",
        devices=("cpu",),
        tags=("generated", "search", "fusion", "technique-123"),
        formerly=("kernel_generator",),
    )
    yield Target(
        "agent_loop",
        "A loop that proposes kernels needs full judging for the few that it would accept",
        goal="speed",
        devices=("cpu",),
        tags=("generated", "search", "judging", "simulation", "technique-123", "technique-125"),
    )
    yield Target(
        "search_efficiency",
        "A model of the costs, fitted to the trials, finds in tens what chance finds in hundreds",
        goal="speed",
        devices=("cpu",),
        tags=("search", "autotuning", "simulation", "technique-124"),
    )
    yield Target(
        "graph_rewrite",
        "A rewrite that pays later is lost to a search that takes what pays at once",
        goal="speed",
        devices=("cpu",),
        tags=("algorithms", "search", "rewriting", "gemm"),
    )
    yield Target(
        "checkpoint_interval",
        "How often to write checkpoints, and where to, when a machine fails every half hour",
        goal="speed",
        devices=("cpu",),
        tags=("training", "checkpoint", "simulation", "failures"),
    )
    yield Target(
        "collective_at_scale",
        "On many nodes an all-reduce is as long as its steps: levels, then halves, then sums in the network",
        goal="speed",
        devices=("cpu",),
        tags=("training", "all-reduce", "collectives", "simulation", "technique-138"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the loop that is open to a model, and the recording of patches."""
    yield Command("ch20", "Judge what a model proposes.", "aiperf_ch20.cli:ch20")
