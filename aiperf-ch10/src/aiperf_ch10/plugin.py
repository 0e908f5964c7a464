"""The contents page of chapter 10."""

from collections.abc import Iterable

from aiperf_core.commands import Command
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
    yield Target(
        "persistent_jacobi",
        "Keep the state of an iteration in registers, and exchange only the rims of tiles",
        "latency",
        "cuda",
        ("cuda-cpp", "graphs", "stencil", "technique-38", "technique-45"),
    )
    yield Target(
        "megakernel_mlp",
        "Run a token's MLP in one launch, and read weights while the blocks wait for each other",
        "latency",
        "cuda",
        ("cuda-cpp", "graphs", "gemv", "decode", "technique-45", "technique-108"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostic, as one command with a subcommand."""
    yield Command("ch10", "Show which pipelines a GPU allows, and how deep they are.", "aiperf_ch10.cli:ch10")
