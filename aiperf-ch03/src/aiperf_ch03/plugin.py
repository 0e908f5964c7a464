"""The contents page of chapter 3."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target(
        "first_touch", "Page faults are part of the first access", "latency", "cpu", ("os", "memory", "technique-6")
    )
    yield Target("huge_pages", "Random access is as fast as the TLB reaches", "speed", "cpu", ("os", "memory", "tlb"))
    yield Target(
        "thread_oversubscription",
        "A thread without a core keeps the others waiting",
        "throughput",
        "cpu",
        ("os", "threads"),
    )
    yield Target(
        "ipc_transport",
        "Memory that two processes share spares both copies of a pipe",
        "speed",
        "cpu",
        ("os", "memory", "ipc"),
    )
    yield Target(
        "launch_jitter",
        "A neighbour on the core is in the tail of the latencies",
        "latency",
        "cpu",
        ("os", "scheduler", "tail"),
    )
    yield Target(
        "numa_locality",
        "A page is read from the node that wrote it first",
        "throughput",
        "cpu",
        ("os", "memory", "numa"),
    )
    yield Target(
        "pinned_cost",
        "A lock of memory is worth its time if many transfers use it",
        "throughput",
        ("cpu", "cuda"),
        ("os", "memory", "pcie"),
    )
    yield Target(
        "sm_partition",
        "Two jobs share a GPU by multiprocessors, as they share a machine by cores",
        "throughput",
        "cuda",
        ("cuda-cpp", "scheduling", "sharing"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics, as one command with five subcommands."""
    yield Command("ch03", "Audit the system, lint manifests, bind commands to CPUs.", "aiperf_ch03.cli:ch03")
