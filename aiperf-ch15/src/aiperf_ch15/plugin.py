"""The contents page of chapter 15."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "continuous_batching",
        "A slot of the batch is filled again as soon as its request has ended",
        goal="throughput",
        devices=("cpu", "cuda"),
        tags=("inference", "serving", "batching", "technique-98"),
    )
    yield Target(
        "moe_dispatch",
        "Rows are grouped by expert with counts, and each row is read once",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("moe", "routing", "permutation", "technique-86"),
    )
    yield Target(
        "moe_grouped_gemm",
        "The products of all experts are one, whose groups end where the routing says",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("moe", "matmul", "triton", "technique-92"),
    )
    yield Target(
        "speculative_decoding",
        "A step that reads the weights once can judge several guessed tokens",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("lab-speculative-decode", "inference", "decoding", "speculation", "technique-113", "technique-114"),
        formerly=("labs.draft_verify",),
    )
    yield Target(
        "guided_decoding",
        "Legal tokens are a table by state, and forced tokens need no model",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("inference", "decoding", "grammar", "cuda-graphs", "technique-142"),
    )
    yield Target(
        "expert_load_balance",
        "All ranks wait for the rank with the most tokens",
        goal="throughput",
        devices=("cpu", "cuda"),
        tags=("moe", "distributed", "inference", "technique-89", "technique-91"),
    )
