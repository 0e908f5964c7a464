"""The contents page of chapter 5."""

from collections.abc import Iterable

from aiperf_core.commands import Command
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the chapter's benchmarks in reading order."""
    yield Target("file_read", "A disk wants large requests, and several at once", "throughput", "cpu", ("storage",))
    yield Target(
        "checkpoint_save", "Stall for a copy, not for the disk", "latency", ("cpu", "cuda"), ("storage", "training")
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics, as one command with four subcommands."""
    yield Command("ch05", "Audit storage, datasets and data loaders.", "aiperf_ch05.cli:ch05")
