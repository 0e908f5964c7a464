"""The contents page of chapter 14."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "triton_softmax",
        "A row that stays on the chip is read once and written once",
        goal="speed",
        devices=BOTH,
        tags=("triton", "fusion", "softmax", "technique-39", "technique-81"),
    )
    yield Target(
        "triton_matmul",
        "Give the compiler a tile, stages and an order, and reach the library's product",
        goal="speed",
        devices=("cuda",),
        tags=("triton", "gemm", "tensor-cores", "persistent", "technique-38", "technique-81"),
    )
    yield Target(
        "fp8_block_gemm",
        "Scale the sums of a block, and multiply e4m3 as it is",
        goal="speed",
        devices=("cuda",),
        tags=("triton", "gemm", "fp8", "tensor-cores", "quantization", "technique-64"),
    )
    yield Target(
        "triton_flash_attention",
        "Keep the scores of attention on the chip, and skip what the mask hides",
        goal="speed",
        devices=("cuda",),
        tags=("triton", "attention", "fusion", "tensor-cores", "technique-39", "technique-40"),
    )
    yield Target(
        "gemm_epilogue",
        "Gate a product while it is in registers",
        goal="speed",
        devices=("cuda",),
        tags=("triton", "gemm", "fusion", "tensor-cores", "technique-75", "technique-81"),
    )
    yield Target(
        "custom_op",
        "Make an operator of one's own that is one trip to memory, and torch knows by name",
        goal="speed",
        devices=("cuda",),
        tags=("compiler", "triton", "cuda-cpp", "fusion", "norm", "technique-75", "technique-81"),
    )
    yield Target(
        "compile_modes",
        "A mode of torch.compile removes kernels, Python, or nothing",
        goal="speed",
        devices=BOTH,
        tags=("compiler", "graph", "fusion", "inference", "technique-74", "technique-76", "technique-77"),
    )
    yield Target(
        "dynamic_shapes",
        "A length that is a symbol is one graph, where each length would be its own",
        goal="latency",
        devices=("cpu",),
        tags=("compiler", "dynamo", "inference", "latency", "technique-71"),
    )
