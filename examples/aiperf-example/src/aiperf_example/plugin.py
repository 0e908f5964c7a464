"""What this package contributes. It is imported by every command, so it imports nothing heavy."""

import os
from collections.abc import Iterable
from pathlib import Path

from aiperf_core.candidate_format import Format
from aiperf_core.commands import Command
from aiperf_core.events import TargetFinished
from aiperf_core.hookspecs import hookimpl
from aiperf_core.targets import Target
from aiperf_core.validity.cases import Case
from aiperf_core.validity.issues import HARD, Issue

UNFINISHED = "example.unfinished_rows"


@hookimpl
def aiperf_targets() -> Iterable[Target]:
    """List the benchmarks."""
    yield Target(
        "row_norms", "Square and sum in one pass", goal="speed", devices=("cpu", "cuda"), tags=("memory", "reduction")
    )
    yield Target(
        "rms_norm",
        "Scale a row while it is on the chip",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("cuda-cpp", "triton", "reduction"),
    )


@hookimpl
def aiperf_commands() -> Iterable[Command]:
    """Contribute `aiperf example`."""
    yield Command("example", "Count the rows that were FASTER so far.", "aiperf_example.cli:command")


@hookimpl
def aiperf_issues() -> Iterable[Issue]:
    """Contribute a way in which a number can be untrue. Its guard is one of those that come with aiperf."""
    yield Issue(
        id=UNFINISHED,
        title="The last rows are left out",
        happens="Rows beyond the last whole block are never computed, which is the faster the fewer rows there are.",
        guard="judged_output",
        protection="Timed samples, chosen after the clock has stopped, are compared with the reference in every row.",
        severity=HARD,
    )


@hookimpl
def aiperf_attacks() -> Iterable[Case]:
    """Contribute code that commits the issue, and honest code that looks like it; `aiperf selftest` tries both."""
    yield Case(issue=UNFINISHED, module="aiperf_example.unfinished", implementation="whole_blocks")
    yield Case(issue=UNFINISHED, module="aiperf_example.unfinished", implementation="blocks_and_rest", honest=True)


@hookimpl
def aiperf_formats() -> Iterable[Format]:
    """Contribute `aiperf judge --format custom-kernel`."""
    yield Format(
        "custom-kernel",
        "function custom_kernel(data); --target is a file with generate_input, ref_kernel",
        "aiperf_example.custom_kernel:CustomKernel",
    )


@hookimpl
def aiperf_target_finished(result: TargetFinished) -> None:
    """Note each verdict in a file, where `AIPERF_EXAMPLE_NOTES` names one. Never in the bundle: that is the run's."""
    notes = os.environ.get("AIPERF_EXAMPLE_NOTES")
    if notes:
        with Path(notes).open("a", encoding="utf-8") as file:
            file.writelines(f"{result.name}:{name} {verdict}\n" for name, verdict in result.verdicts.items())
