"""A fleet as tables: rows of texts, and lines."""

from collections.abc import Iterator, Sequence

from aiperf_core.names import words
from aiperf_core.units import plural
from aiperf_fleet.records import State, Task
from aiperf_fleet.slow import Comparison, MachineEffect

TASK_HEADS = ("task", "class", "machine", "attempts", "ending", "exit", "reason")
MACHINE_HEADS = ("machine", "runs", "time by the others'", "95 % interval", "p", "")
Row = tuple[str | int, ...]


def task_row(task: Task) -> Row:
    """A task, with the attempt that has its bundle, or else the last one."""
    last = task.done or (task.attempts[-1] if task.attempts else None)
    reason = task.given_up or (last.reason if last else "")
    return (
        task.id,
        words(task.machine_class),
        words(last.machine or "-") if last else "-",
        len(task.attempts),
        last.ending if last else "waits",
        last.exit_code if last and last.exit_code is not None else "-",
        words(reason.strip().splitlines()[-1])[:200] if reason.strip() else "",
    )


def machine_row(one: MachineEffect) -> Row:
    """A machine beside the others."""
    interval = f"[{one.low:.3f}, {one.high:.3f}]"
    return words(one.machine), one.count, f"{one.ratio:.3f}", interval, f"{one.p:.2g}", "SLOW" if one.slow else ""


def about_machines(comparison: Comparison) -> str:
    """The spreads, or why there is no comparison."""
    if comparison.reason:
        return f"machines are not compared: {comparison.reason}"
    between, within = (f"{100 * (one or 0.0):.2f} %" for one in (comparison.between, comparison.within))
    return f"standard deviation between machines {between}, between runs {within}"


def about_bundles(tasks: Sequence[Task], state: State) -> str:
    """How many bundles there are."""
    return f"{state}: {sum(one.done is not None for one in tasks)} of {plural('bundle', len(tasks))}"


def lines(tasks: Sequence[Task], comparison: Comparison, state: State) -> Iterator[str]:
    """Tables and notes as lines, for a reader that has no layout of its own."""
    yield from _table(TASK_HEADS, list(map(task_row, tasks)))
    if comparison.machines:
        yield from _table(MACHINE_HEADS, list(map(machine_row, comparison.machines)))
    yield ""
    yield f"note: {about_machines(comparison)}"
    yield f"note: {about_bundles(tasks, state)}"


def _table(heads: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    yield ""
    texts = [heads, *([str(cell) for cell in row] for row in rows)]
    wide = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip()
