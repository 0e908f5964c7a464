"""The contents page of chapter 10."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "double_buffered_gemm",
        "Load the operands of the next step while this one is multiplied",
        "speed",
        BOTH,
        ("cuda-cpp", "gemm", "async", "technique-32", "technique-34", "technique-36", "technique-41"),
    )
    yield Target(
        "warp_specialized_gemm",
        "Keep wgmma fed: stages under way, roles, blocks that stay",
        "speed",
        "cuda",
        ("cuda-cpp", "gemm", "tma", "technique-35", "technique-36", "technique-38"),
    )
    yield Target(
        "flash_attention_pipeline",
        "Compute exponentials beside products: a producer warp, turns of warpgroups, overlap within one",
        "speed",
        "cuda",
        ("cuda-cpp", "attention", "tma", "technique-35", "technique-36"),
    )
    yield Target(
        "cluster_softmax",
        "Keep a long row in the shared memory of a cluster, and read it once",
        "speed",
        "cuda",
        ("cuda-cpp", "clusters", "technique-46", "technique-47"),
    )
    yield Target(
        "single_pass_reduction",
        "Finish a reduction in the launch that began it",
        "speed",
        BOTH,
        ("cuda-cpp", "atomics", "clusters", "technique-45", "technique-46"),
    )
