"""The contents page of the labs."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "cpu_gemm_ladder",
        "A matrix product on a processor, from three loops to the speed of a library",
        goal="speed",
        devices="cpu",
        tags=("lab-blackwell-matmul", "gemm", "c", "technique-28"),
    )
    yield Target(
        "image_pipeline",
        "From encoded images in a file to a network that never waits",
        goal="throughput",
        devices=("cpu", "cuda"),
        tags=("lab-async-input-pipeline", "io", "streams", "technique-44", "technique-136"),
    )
