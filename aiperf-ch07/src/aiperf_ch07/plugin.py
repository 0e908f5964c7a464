"""The contents page of chapter 7."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")
CUDA_CPP = ("cuda-cpp", "memory")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "memory_access",
        "Neighbours in a warp should touch neighbours in memory",
        "speed",
        BOTH,
        (*CUDA_CPP, "technique-14"),
    )
    yield Target(
        "vectorized_copy", "A copy is as fast as the bytes in flight", "speed", BOTH, (*CUDA_CPP, "technique-15")
    )
    yield Target("aos_soa", "Use every byte of a line that you fetch", "speed", BOTH, CUDA_CPP)
    yield Target(
        "transpose",
        "Coalesce both sides, and keep shared memory's banks apart",
        "speed",
        BOTH,
        (*CUDA_CPP, "technique-19", "technique-20"),
    )
    yield Target("gather", "Fetch random rows at full width, several at a time", "speed", BOTH, CUDA_CPP)
    yield Target("histogram", "Private copies before atomics", "speed", BOTH, (*CUDA_CPP, "atomics"))
    yield Target(
        "smem_matmul",
        "Fetch once into shared memory, use 32 times",
        "speed",
        BOTH,
        (*CUDA_CPP, "gemm", "technique-19", "technique-28"),
    )
    yield Target(
        "warp_reduce",
        "A short row belongs to a warp, not to a block",
        "speed",
        BOTH,
        (*CUDA_CPP, "warp", "technique-30"),
    )
    yield Target("warp_scan", "Prefix sums in one pass", "speed", BOTH, (*CUDA_CPP, "warp", "technique-30"))
    yield Target(
        "async_prefetch",
        "Load the next tile while this one is used",
        "speed",
        BOTH,
        (*CUDA_CPP, "async", "technique-32", "technique-34"),
    )
    yield Target("stencil_3d", "Share what neighbouring points read", "speed", BOTH, (*CUDA_CPP, "tma", "technique-19"))
    yield Target(
        "lowbit_unpack", "Wide accesses and bit tricks for packed weights", "speed", BOTH, (*CUDA_CPP, "technique-15")
    )
    yield Target(
        "lowbit_gemv",
        "Unpack weights inside the product that uses them",
        "speed",
        BOTH,
        (*CUDA_CPP, "gemm", "technique-141"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics, as one command with three subcommands."""
    yield Command("ch07", "Show how kernels access memory.", "aiperf_ch07.cli:ch07")
