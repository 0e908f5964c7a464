"""The contents page of chapter 17."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "prefill_packing",
        "A batch of prompts of many lengths need not be padded to the longest",
        goal="throughput",
        devices=("cpu", "cuda"),
        tags=("inference", "prefill", "batching", "technique-100", "technique-102"),
    )
    yield Target(
        "disagg_goodput",
        "Prefill and decode apart keep both deadlines at a higher rate",
        goal="throughput",
        devices=("cpu",),
        tags=("inference", "serving", "simulation", "disaggregation", "technique-103"),
    )
    yield Target(
        "routing_policy",
        "A turn goes where its beginning is cached, unless the queue there is long",
        goal="latency",
        devices=("cpu",),
        tags=("inference", "serving", "simulation", "technique-121"),
    )
    yield Target(
        "disagg_plan",
        "A few simulations from a good start find the plan that all of them would",
        goal="latency",
        devices=("cpu",),
        tags=("inference", "serving", "simulation", "disaggregation", "search", "technique-103", "technique-106"),
    )
