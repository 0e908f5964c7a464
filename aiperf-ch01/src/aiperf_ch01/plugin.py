"""The contents page of chapter 1."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "train_step",
        "Samples a second are the metric: fuse micro-batches, then lower the precision",
        goal="throughput",
        devices=BOTH,
        tags=("training", "precision", "graph"),
    )
    yield Target(
        "batched_gemm",
        "40 tiny GEMMs are 40 launches; one batched call is one",
        goal="speed",
        devices=BOTH,
        tags=("gemm", "triton", "launch"),
    )
    yield Target(
        "batch_size",
        "Weights read for few requests are read for little arithmetic",
        goal="throughput",
        devices=BOTH,
        tags=("gemm", "roofline", "serving"),
    )
    yield Target(
        "precision_ladder",
        "Each step down in precision buys rate and costs accuracy",
        goal="speed",
        devices=BOTH,
        tags=("gemm", "precision", "triton", "technique-10", "technique-11", "technique-64"),
    )
    yield Target(
        "metric_sync",
        "Reading a metric in every step makes the training wait for it",
        goal="throughput",
        devices=BOTH,
        tags=("training", "synchronisation"),
    )
    yield Target(
        "alloc_churn",
        "Memory that is given back after a step is paid for again in the next",
        goal="latency",
        devices=BOTH,
        tags=("memory", "allocator", "graph"),
    )
    yield Target(
        "inference_memory",
        "A forward pass under autograd keeps every activation",
        goal="memory",
        devices=BOTH,
        tags=("memory", "inference"),
    )
    yield Target(
        "launch_overhead",
        "Short kernels cost their launches, not their work",
        goal="latency",
        devices=BOTH,
        tags=("triton", "launch", "graph", "technique-54", "technique-55"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's studies, which are no benchmarks."""
    yield Command("ch01", "Study ways of timing, goodput and scaling.", "aiperf_ch01.cli:ch01")
