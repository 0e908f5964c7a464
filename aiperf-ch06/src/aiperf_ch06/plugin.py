"""The contents page of chapter 6."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target

BOTH = ("cpu", "cuda")


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks in reading order."""
    yield Target(
        "vector_add",
        "Work for every thread of the chip, then more work for each thread",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "memory", "technique-2", "technique-8", "technique-9"),
    )
    yield Target(
        "bank_conflicts",
        "Keep the words of a column in different banks",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "memory", "technique-19", "technique-20"),
    )
    yield Target(
        "stencil_memory_spaces",
        "Coefficients in constant memory, values in registers",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "memory", "stencil", "technique-19"),
    )
    yield Target(
        "math_intrinsics",
        "An approximate function has a price in digits",
        goal="speed",
        devices=BOTH,
        tags=("cuda-cpp", "precision"),
    )
    yield Target(
        "launch_bounds",
        "Trade registers for threads on purpose",
        goal="speed",
        devices="cuda",
        tags=("cuda-cpp", "occupancy", "technique-23", "technique-24"),
    )
    yield Target(
        "unified_memory",
        "Move managed memory in bulk, before it is needed",
        goal="latency",
        devices="cuda",
        tags=("memory", "transfer", "technique-21"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics, as one command with two subcommands."""
    yield Command("ch06", "Show what limits the blocks on a multiprocessor.", "aiperf_ch06.cli:ch06")
