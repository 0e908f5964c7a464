"""The contents page of chapter 2."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "host_transfer",
        "A copy engine reaches page-locked memory only",
        goal="throughput",
        devices=BOTH,
        tags=("transfer", "memory", "technique-44"),
    )
    yield Target(
        "wave_quantization",
        "One tile more than multiprocessors takes as long as twice as many",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "occupancy", "technique-1", "technique-38", "technique-62"),
    )
    yield Target(
        "l2_blocking",
        "Let a chunk stay in the cache through several passes",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "memory", "cache", "technique-16", "technique-28"),
    )
    yield Target(
        "zero_copy_small",
        "A kernel reads a small input over PCIe before its copy has begun",
        goal="latency",
        devices=("cuda",),
        tags=("cuda-cpp", "transfer", "latency", "technique-44"),
    )
    yield Target(
        "peer_access",
        "A GPU reads its peer's memory in place: no copy, and no barrier",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "transfer", "multi-gpu"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics, as one command with two subcommands."""
    yield Command("ch02", "Show the hardware of this machine and the links of its GPUs.", "aiperf_ch02.cli:ch02")
