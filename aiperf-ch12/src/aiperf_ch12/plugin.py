"""The contents page of chapter 12."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "cuda_graphs",
        "A chain of short kernels is as fast as it is launched; a graph launches it at once",
        "latency",
        ("cpu", "cuda"),
        ("graphs", "launch", "technique-54", "technique-55"),
    )
    yield Target(
        "graph_while",
        "A loop that tests on the device does not ask the host whether to go on",
        "latency",
        ("cpu", "cuda"),
        ("graphs", "control-flow"),
    )
    yield Target(
        "graph_update",
        "An executable graph is told of new pointers, not captured again",
        "latency",
        ("cuda",),
        ("graphs", "launch", "technique-56"),
    )
    yield Target(
        "graph_if_else",
        "A choice that the device makes does not ask the host",
        "latency",
        ("cuda",),
        ("graphs", "control-flow", "technique-56"),
    )
    yield Target(
        "atomic_work_queue",
        "Lanes that take their next item when they are done wait for no other",
        "speed",
        ("cpu", "cuda"),
        ("cuda-cpp", "atomics", "scheduling", "technique-52", "technique-53"),
    )
    yield Target(
        "ragged_segments",
        "Threads with equal shares of all elements need not know whose segment is long",
        "speed",
        ("cpu", "cuda"),
        ("cuda-cpp", "scheduling", "reduction", "technique-52", "technique-62"),
    )
    yield Target(
        "dynamic_parallelism",
        "Work that is found at run time need not be found by the host",
        "latency",
        ("cuda",),
        ("cuda-cpp", "atomics", "scheduling", "graphs", "technique-52"),
    )
