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


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics, as one command with four subcommands."""
    yield Command("ch03", "Audit the operating system; bind commands to CPUs and memory.", "aiperf_ch03.cli:ch03")
