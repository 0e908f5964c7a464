"""The contents page of chapter 11."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "host_device_overlap",
        "Decide on the device, and read its numbers late",
        goal="throughput",
        devices=BOTH,
        tags=("training", "synchronisation", "technique-44"),
        formerly=("host_sync_removal",),
    )
    yield Target(
        "event_dag",
        "A tile starts when its own inputs are ready",
        goal="speed",
        devices=BOTH,
        tags=("streams", "events", "graph", "technique-42", "technique-43"),
    )
    yield Target(
        "copy_overlap",
        "Copy chunks up and results down while a chunk is in use",
        goal="throughput",
        devices=BOTH,
        tags=("streams", "transfers", "technique-42", "technique-44"),
        formerly=("h2d_compute_overlap",),
    )
    yield Target(
        "stream_ordered_alloc",
        "Memory that a stream gives back to itself needs no driver",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "streams", "allocation", "technique-60"),
    )
    yield Target(
        "pdl_chain",
        "The next kernel's prologue runs while this one ends",
        goal="latency",
        devices=("cuda",),
        tags=("cuda-cpp", "graph", "decode", "technique-58"),
    )
    yield Target(
        "layer_prefetch",
        "Weights come one layer ahead, while the layer before is in use",
        goal="throughput",
        devices=("cuda",),
        tags=("streams", "transfers", "offload", "technique-42", "technique-44"),
    )
