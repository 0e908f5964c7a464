"""The contents page of chapter 9."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "norm_fusion",
        "Add a residual and normalise in one trip to memory",
        goal="speed",
        devices=BOTH,
        tags=("fusion", "norm", "triton", "cuda-cpp", "technique-75"),
    )
    yield Target(
        "elementwise_fusion",
        "Make one kernel of operations that would each be a trip to memory",
        goal="speed",
        devices=BOTH,
        tags=("fusion", "elementwise", "cuda-cpp", "triton", "technique-75"),
    )
    yield Target(
        "softmax_online",
        "Read a long row once, not three times",
        goal="speed",
        devices=BOTH,
        tags=("fusion", "softmax", "cuda-cpp", "technique-39"),
    )
    yield Target(
        "micro_tiling_matmul",
        "Keep a tile of the product in registers",
        goal="speed",
        devices=BOTH,
        tags=("gemm", "cuda-cpp", "async", "technique-28", "technique-31", "technique-32", "technique-34"),
    )
    yield Target(
        "tensor_core_gemm",
        "Keep the tensor cores fed: from one stage to a cluster's multicast",
        goal="speed",
        devices="cuda",
        tags=(
            *("gemm", "cuda-cpp", "tma", "clusters", "lab-blackwell-matmul", "lab-hopper-gemm-ladder"),
            *("technique-11", "technique-29", "technique-35", "technique-36", "technique-38", "technique-46"),
        ),
        formerly=("ch10.warp_specialized_gemm",),
    )
    yield Target(
        "gemm_epilogue_fusion",
        "Apply bias, activation and residual to the product's sums while they are in registers",
        goal="speed",
        devices="cuda",
        tags=("gemm", "fusion", "cuda-cpp", "tma", "technique-134"),
    )
    yield Target(
        "fp8_gemm",
        "Multiply in eight bits at twice the rate, with a scale where sizes differ",
        goal="speed",
        devices="cuda",
        tags=("gemm", "cuda-cpp", "fp8", "tma", "technique-11"),
    )
    yield Target(
        "attention_fusion",
        "Compute attention in one pass over the keys, and store no score",
        goal="speed",
        devices=BOTH,
        tags=("attention", "cuda-cpp", "lab-flexattention", "technique-39", "technique-40"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostic, as one command with a subcommand."""
    yield Command("ch09", "Show where arithmetic and not memory bounds the time.", "aiperf_ch09.cli:ch09")
