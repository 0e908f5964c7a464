"""The contents page of chapter 4."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "allreduce_fusion",
        "Many small collectives are latency",
        goal="latency",
        devices=BOTH,
        tags=("distributed", "collectives", "technique-49"),
    )
    yield Target(
        "allreduce_small",
        "Pick the algorithm by the size of the message",
        goal="latency",
        devices=BOTH,
        tags=("distributed", "collectives", "peer-memory", "technique-49"),
    )
    yield Target(
        "ddp_overlap",
        "Send gradients while backward still runs",
        goal="throughput",
        devices=BOTH,
        tags=("distributed", "training", "overlap", "technique-48"),
    )
    yield Target(
        "grad_accum_sync",
        "Synchronise once for each optimizer step",
        goal="throughput",
        devices=BOTH,
        tags=("distributed", "training"),
    )
    yield Target(
        "grad_compression",
        "Fewer bytes, for the cost of encoding them",
        goal="speed",
        devices=BOTH,
        tags=("distributed", "training", "compression"),
    )
    yield Target(
        "tensor_parallel_mlp",
        "One pair of collectives a block, then hide it",
        goal="latency",
        devices=BOTH,
        tags=("distributed", "gemm", "overlap", "technique-126"),
    )
    yield Target(
        "comm_compute_overlap",
        "A collective and an independent product at once",
        goal="speed",
        devices=BOTH,
        tags=("distributed", "gemm", "overlap", "technique-48"),
    )
    yield Target(
        "optimizer_sharding",
        "Do not keep n copies of Adam's state",
        goal="memory",
        devices=BOTH,
        tags=("distributed", "training", "memory"),
    )
    yield Target(
        "all_to_all",
        "Send tokens to their experts, and no padding with them",
        goal="latency",
        devices=BOTH,
        tags=("distributed", "experts", "peer-memory", "technique-88"),
    )
    yield Target(
        "pipeline_schedule",
        "What a stage does while it waits for its neighbours",
        goal="throughput",
        devices=BOTH,
        tags=("distributed", "training", "pipeline", "technique-127"),
    )
    yield Target(
        "pipeline_memory",
        "Micro-batches in flight are activations in memory",
        goal="memory",
        devices=BOTH,
        tags=("distributed", "training", "pipeline", "memory"),
    )
    yield Target(
        "kv_transfer",
        "Hand a paged cache from one rank to the next",
        goal="latency",
        devices=BOTH,
        tags=("distributed", "inference", "kv-cache", "disaggregation", "peer-memory", "technique-132"),
        formerly=("ch17.kv_transfer_granularity",),
    )
    yield Target(
        "kv_overlap",
        "Hand over the cache of a layer while the next one is computed",
        goal="latency",
        devices=BOTH,
        tags=("distributed", "inference", "overlap"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics."""
    yield Command("ch04", "Diagnose communication: collectives, stragglers, NCCL, plans.", "aiperf_ch04.cli:ch04")
