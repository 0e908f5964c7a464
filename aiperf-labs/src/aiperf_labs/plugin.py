"""The contents page of the labs."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order. The tag `lab-NAME` says which lab a target belongs to."""
    yield Target(
        "decode_ladder",
        "What is left when nothing stands between the products of two tokens",
        goal="latency",
        devices=BOTH,
        tags=("lab-decode-optimization", "inference", "graph", "technique-54", "technique-55"),
    )
    yield Target(
        "persistent_decode",
        "A recurrence in one launch reads its weights once, not once a step",
        goal="latency",
        devices="cuda",
        tags=("lab-persistent-decode", "inference", "cuda-cpp", "graph", "technique-38"),
    )
    yield Target(
        "cpu_gemm_ladder",
        "A matrix product on a processor, from three loops to the speed of a library",
        goal="speed",
        devices="cpu",
        tags=("lab-blackwell-matmul", "gemm", "c", "technique-28"),
    )
    yield Target(
        "image_pipeline",
        "Encoded images reach a network as fast as all processors decode them",
        goal="throughput",
        devices=BOTH,
        tags=("lab-async-input-pipeline", "io", "streams", "technique-44", "technique-136"),
    )
    yield Target(
        "moe_ladder",
        "From a mask for each expert to two kernels for all of them",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("lab-moe-optimization-journey", "moe", "matmul", "triton", "technique-92"),
    )
    yield Target(
        "ddp_ladder",
        "What each option of data parallelism is worth beside all others",
        goal="throughput",
        devices=BOTH,
        tags=("lab-train-distributed", "distributed", "training", "technique-48", "technique-49"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the list of ladders, and the coverage of techniques."""
    yield Command("labs", "List the labs, or show the ladders of one.", "aiperf_labs.cli:labs")
    yield Command(
        "techniques", "List techniques, and which of them have a stored result.", "aiperf_labs.cli:techniques"
    )
