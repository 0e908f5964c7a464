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
    yield Target(
        "checkpoint_load",
        "Read the tensors that are asked for, to where they are used",
        "latency",
        ("cpu", "cuda"),
        ("storage", "training"),
    )
    yield Target("small_files", "An open for each sample costs more than its bytes", "throughput", "cpu", ("storage",))
    yield Target(
        "token_dataset",
        "Parse the text once, read tokens in shuffled blocks",
        "throughput",
        "cpu",
        ("storage", "training"),
    )
    yield Target(
        "dataloader",
        "Decode the next images beside the step",
        "throughput",
        ("cpu", "cuda"),
        ("storage", "training"),
    )
    yield Target(
        "remote_prefetch", "As many requests under way as hide the latency of one", "throughput", "cpu", ("storage",)
    )
    yield Target("gpu_load", "From a disk to a GPU in chunks: both links at once", "throughput", "cuda", ("storage",))


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute the chapter's diagnostics, as one command with four subcommands."""
    yield Command("ch05", "Audit storage, datasets and data loaders.", "aiperf_ch05.cli:ch05")
