"""The contents page of chapter 18."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "flash_decode",
        "One token's attention to a long cache fills the GPU when the cache is split",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("attention", "decode", "kv-cache", "technique-39", "technique-115"),
    )
    yield Target(
        "mla_decode",
        "Projections of a latent cache move to the query, and a latent is read once",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("attention", "decode", "kv-cache", "mla", "triton", "technique-107"),
    )
    yield Target(
        "cascade_attention",
        "A prefix that many sequences share is read once for all their queries",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("attention", "decode", "kv-cache", "prefix-cache", "triton"),
    )
    yield Target(
        "rope_kv_append",
        "What follows the QKV product is one pass over its result",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("decode", "kv-cache", "fusion", "rotary", "technique-75", "technique-81"),
    )
    yield Target(
        "kv_block_allocator",
        "Block tables are arrays, and an operation on them is a few instructions",
        goal="latency",
        devices=("cpu",),
        tags=("serving", "kv-cache", "paging", "copy-on-write", "technique-94"),
    )
    yield Target(
        "kv_eviction",
        "A cache of an eighth answers what its policy has kept: the last tokens, or those that had attention",
        goal="memory",
        devices=("cpu",),
        tags=("attention", "decode", "kv-cache", "eviction", "quality"),
    )
    yield Target(
        "flex_sliding_window",
        "Keys outside of the window are skipped, not masked",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("attention", "prefill", "sliding-window", "technique-40", "technique-81"),
    )
    yield Target(
        "sparse_masks",
        "A mask as a list of tiles: hidden tiles are not visited, and whole tiles not masked",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("attention", "prefill", "flex-attention", "block-sparse", "triton"),
    )
    yield Target(
        "graph_bucketing",
        "A few batch sizes have a CUDA graph, chosen so that the trace's steps are padded least",
        goal="latency",
        devices=("cuda",),
        tags=("serving", "decode", "cuda-graphs", "batching", "technique-61"),
    )
    yield Target(
        "mini_engine",
        "A small engine: schedule, prefix and launches, switched on one by one",
        goal="throughput",
        devices=("cpu", "cuda"),
        tags=(
            "serving",
            "continuous-batching",
            "prefix-cache",
            "cuda-graphs",
            "technique-98",
            "technique-96",
            "technique-101",
        ),
    )
