"""The techniques of AI systems that targets measure, by number, and the claims of targets on them.

A target claims a technique with the tag `technique-ID`. Numbers never change their meaning.
"""

import re
from collections.abc import Iterable, Iterator

from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_core.targets import InstalledTarget

TAG = re.compile(r"technique-(?P<id>[a-z0-9-]*)")


@frozen
class Technique:
    """A technique, and the chapter or the package of labs that treats it."""

    id: int
    name: str
    chapter: str


# In the order of their numbers, from 1.
_LISTED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ch06", ("multiprocessors, warps and SIMT", "the CUDA execution model")),
    ("ch01", ("timelines with Nsight Systems", "kernel metrics with Nsight Compute")),
    ("ch02", ("CPU and GPU with coherent memory",)),
    ("ch03", ("CPU and NUMA affinity",)),
    ("ch02", ("the topology of NVLink and NVSwitch",)),
    ("ch06", ("grids, blocks, warps and threads", "choice of grid and block size")),
    ("ch01", ("TF32",)),
    ("ch09", ("tensor cores",)),
    ("ch01", ("cuDNN autotuning",)),
    ("ch02", ("several GPUs in one program",)),
    (
        "ch07",
        (
            "coalesced access",
            "vector loads and stores",
            "hits in the first and second level of cache",
            "data that persist in the second-level cache",
            "the read-only cache",
            "reuse in shared memory",
            "shared memory without bank conflicts",
            "unified memory",
        ),
    ),
    (
        "ch08",
        (
            "occupancy from the resources of a block",
            "launch bounds",
            "register pressure and spills",
            "instruction-level parallelism",
            "latency hidden by other warps",
            "warps without divergence",
        ),
    ),
    ("ch09", ("tiling", "a budget of shared memory")),
    ("ch07", ("warp shuffles",)),
    ("ch09", ("tiles that a whole block loads",)),
    (
        "ch10",
        (
            "double buffering in a kernel",
            "the CUDA pipeline interface",
            "asynchronous copies to shared memory",
            "warps with different tasks",
            "the tensor memory accelerator",
            "tensor memory",
            "persistent kernels",
        ),
    ),
    ("ch14", ("online softmax", "attention in tiles")),
    ("ch10", ("software pipelining",)),
    (
        "ch11",
        ("streams", "events between streams", "copies beside kernels"),
    ),
    ("ch10", ("cooperative groups", "clusters of thread blocks", "shared memory of other blocks")),
    (
        "ch04",
        (
            "communication beside computation",
            "collectives of NCCL",
            "MPI with GPU buffers",
            "one-sided puts and gets of NVSHMEM",
        ),
    ),
    (
        "ch12",
        (
            "work queues with atomics",
            "atomics in batches",
            "capture of CUDA graphs",
            "replay of CUDA graphs",
            "limits of CUDA graphs, and updates",
            "graphs launched by the GPU",
        ),
    ),
    ("ch11", ("programmatic dependent launch",)),
    ("ch12", ("dynamic parallelism",)),
    ("ch11", ("stream-ordered allocation",)),
    ("ch18", ("graphs for buckets of sizes",)),
    ("ch12", ("the tail of a launch",)),
    (
        "ch13",
        (
            "the profiler of PyTorch",
            "training in 8-bit floating point",
            "Transformer Engine",
            "MXFP8",
            "delayed scaling",
        ),
    ),
    ("ch16", ("keys and values in 8-bit floating point",)),
    ("ch19", ("NVFP4",)),
    ("ch13", ("memory pools of the allocator",)),
    (
        "ch14",
        (
            "Dynamo",
            "FX graphs",
            "AOTAutograd",
            "Inductor",
            "fusion by a compiler",
            "the mode max-autotune",
            "the mode reduce-overhead",
            "graph breaks",
            "regional compilation",
            "dynamic shapes",
            "kernels in Triton",
            "autotuning in Triton",
            "warp specialization in Triton",
            "eviction policies of loads",
            "guards on shapes",
        ),
    ),
    (
        "ch15",
        (
            "expert routing",
            "expert parallelism",
            "all-to-all of tokens",
            "balanced experts",
            "experts beside communication",
            "experts moved or replicated",
            "sparse activation",
        ),
    ),
    (
        "ch16",
        (
            "keys and values in blocks",
            "blocks allocated on demand",
            "fragmentation of the cache",
            "shared prefixes",
            "page tables for the cache",
        ),
    ),
    (
        "ch17",
        (
            "continuous batching",
            "chunked prefill",
            "batches of like lengths",
            "schedules of sequence groups",
            "cost of padding",
            "prefill and decode on different GPUs",
            "preemption",
            "time to first token and per token",
            "admission by latency objectives",
        ),
    ),
    (
        "ch18",
        (
            "FlashMLA",
            "decoding in one kernel",
            "FlexDecoding",
            "ragged batches",
            "prefill and decode in one kernel",
            "a pool for the cache",
            "speculation with a draft model",
            "exact acceptance of drafts",
            "grouped queries",
        ),
    ),
    (
        "ch19",
        (
            "parallelism that adapts",
            "precision that adapts",
            "confidence as a trigger",
            "precision for each token",
            "memory pressure as a trigger",
            "routing between pools of workers",
            "fewer bubbles in a pipeline",
        ),
    ),
    ("ch20", ("kernels written by models", "tuning by models", "agents that improve themselves")),
    (
        "ch13",
        ("tensor parallelism", "pipeline parallelism", "context parallelism", "ring attention"),
    ),
    ("ch04", ("settings of NCCL", "GPUDirect RDMA", "transfer of caches between machines")),
    ("ch01", ("roofline analysis",)),
    ("ch09", ("inline PTX",)),
    ("ch05", ("GPUDirect Storage", "input pipelines for images")),
    ("ch03", ("placement of containers by topology",)),
    ("ch20", ("reduction in the network",)),
    ("ch13", ("traces of several ranks",)),
    ("ch14", ("XLA",)),
    ("ch16", ("weights in 8 or 4 bits",)),
    ("ch15", ("constrained decoding",)),
    ("ch19", ("bandits that tune at run time",)),
    ("ch20", ("algorithms found by search",)),
)

TECHNIQUES: dict[int, Technique] = {
    number: Technique(number, name, chapter)
    for number, (chapter, name) in enumerate(((chapter, name) for chapter, names in _LISTED for name in names), 1)
}


def claims(targets: Iterable[InstalledTarget]) -> dict[int, list[str]]:
    """The names of the targets with a tag of each technique. Raises `UsageError` for a tag without a technique."""
    found: dict[int, list[str]] = {number: [] for number in TECHNIQUES}
    for target in targets:
        for number in _claimed(target):
            found[number].append(target.name)
    return found


def _claimed(target: InstalledTarget) -> Iterator[int]:
    for tag in target.tags:
        match = TAG.fullmatch(tag)
        if match and match["id"] not in map(str, TECHNIQUES):
            raise UsageError(
                f"the tag {tag!r} of {target.name!r} names no technique; accepted are technique-1 to "
                f"technique-{len(TECHNIQUES)}. See them: aiperf techniques"
            )
        if match:
            yield int(match["id"])
