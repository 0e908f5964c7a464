"""The contents page of chapter 16."""

from collections.abc import Iterable

from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "dynamic_batching",
        "Requests that wait a little share a pass through the weights",
        "throughput",
        ("cpu", "cuda"),
        ("inference", "serving", "latency"),
    )
    yield Target(
        "chunked_prefill",
        "A prompt in pieces shares its steps with texts, and none waits for all of it",
        "latency",
        ("cpu",),
        ("inference", "serving", "scheduling", "latency", "technique-99"),
    )
    yield Target(
        "prefix_caching",
        "A prompt whose beginning is in the cache computes its end alone",
        "latency",
        ("cpu",),
        ("inference", "serving", "kv-cache", "latency", "technique-96"),
    )
    yield Target(
        "paged_attention",
        "A cache in pages holds what is live, and a kernel that follows the table reads no more",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("attention", "kv-cache", "triton", "serving", "technique-93", "technique-95", "technique-97"),
    )
    yield Target(
        "sampling_kernel",
        "A threshold from two reads of the logits chooses tokens, and nothing is sorted",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("inference", "sampling", "triton", "selection"),
    )
    yield Target(
        "weight_only_quant",
        "Fewer bits of a weight are less time, if they are unpacked in registers",
        goal="latency",
        devices=("cpu", "cuda"),
        tags=("inference", "quantization", "gemv", "int4", "fp8"),
    )
    yield Target(
        "kv_quant_ladder",
        "Fewer bits of keys and values are less time, and a rotation and a window keep the answers",
        goal="speed",
        devices=("cuda",),
        tags=("attention", "kv-cache", "triton", "quantization", "int4", "fp8", "lab-kv-optimization"),
    )
    yield Target(
        "incremental_detokenize",
        "A stream decodes its new token with the bytes held back, and never its whole text again",
        goal="throughput",
        devices=("cpu",),
        tags=("inference", "serving", "tokens", "streaming"),
    )
