"""The declaration of a target in a terminal: its lesson, its sizes with their cost, and its implementations."""

import inspect
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import asdict
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_core import units
from aiperf_core.benchmark import Benchmark, Implementation
from aiperf_core.cost import FURTHER
from aiperf_core.docstring import parts
from aiperf_core.errors import UsageError
from aiperf_core.goal import Goal
from aiperf_core.names import words
from aiperf_core.render.grid import labelled
from aiperf_core.render.look import Look
from aiperf_core.render.notes import no_gain
from aiperf_core.simulated import how_taken
from aiperf_core.targets import InstalledTarget, nearest


def chosen(target: InstalledTarget, benchmark: Benchmark, names: frozenset[str]) -> list[Implementation]:
    """The implementations to show by device: the named ones, or all. Raises UsageError for an unknown name."""
    known = {one.name for one in benchmark.implementations}
    for name in sorted(names - known):
        hint = nearest(name, known) or f" There are: {', '.join(sorted(known))}"
        raise UsageError(f"{target.name!r} has no implementation {name!r}.{hint}")
    everywhere = [one for device in benchmark.devices for one in benchmark.implementations_on(device)]
    return [one for one in everywhere if not names or one.name in names]


def describe(
    target: InstalledTarget, benchmark: Benchmark, implementations: Sequence[Implementation]
) -> dict[str, Any]:
    """The declaration of a target as plain values, for `--json`."""
    presets = benchmark.task.presets
    return {
        **asdict(target),
        "lesson": lesson(target),
        "clock": benchmark.clock,
        "simulated": asdict(benchmark.simulation) if benchmark.simulation else None,
        "cache": benchmark.cache,
        "tolerances": benchmark.tolerances,
        "no_gain_on": dict(benchmark.no_gain_on),
        "goals": [asdict(one) for one in benchmark.goals],
        "presets": {name: {"params": sizes, "cost": asdict(benchmark.work(sizes))} for name, sizes in presets.items()},
        "implementations": [
            asdict(one, filter=lambda field, _: field.name not in ("code", "where", "cost")) for one in implementations
        ],
    }


def lesson(target: InstalledTarget) -> str:
    """The docstring of the imported module of a target."""
    return inspect.cleandoc(sys.modules[target.module].__doc__ or target.summary)


def render_target(
    target: InstalledTarget, benchmark: Benchmark, implementations: Sequence[Implementation], look: Look
) -> RenderableType:
    """The whole declaration of a target."""
    facts = labelled()
    facts.add_row("goal", words(benchmark.goal))
    for goal in benchmark.goals:
        facts.add_row("to reach", _goal(goal, look))
    if benchmark.simulation:
        facts.add_row("samples", how_taken(benchmark.simulation, benchmark.clock, benchmark.cache))
    else:
        facts.add_row("clock", f"{benchmark.clock}, {benchmark.cache} cache")
    by_size = benchmark.tolerances
    if len({*by_size.values()}) == 1:
        facts.add_row("answer", look.text(by_size["smoke"]))
    else:
        facts.add_row("answer", look.text("; ".join(f"{size}: {tolerance}" for size, tolerance in by_size.items())))
    for device, why in benchmark.no_gain_on.items():
        facts.add_row("no gain", no_gain(device, why))
    facts.add_row("package", f"{target.distribution} {target.version}")
    head = Text.assemble((target.name, "bold"), f" {look.dot} {words(target.summary)}")
    shown: list[RenderableType] = [head, Text(), _reflowed(lesson(target)), facts, Text(), _presets(benchmark, look)]
    return Group(*shown, Text(), _implementations(implementations, look), Text())


def _goal(goal: Goal, look: Look) -> Text:
    """A goal in words, with its device, its implementation and the cause of a miss."""
    parts = [goal.device, f"by {goal.implementation}" if goal.implementation else ""]
    text = f"{goal} ({', '.join(filter(None, parts))})"
    return look.text(f"{text}. Missed: {goal.cause} ({goal.shown_by})" if goal.cause else text)


def _reflowed(docstring: str) -> Group:
    """A docstring wrapped again, because source lines are longer than lines of a terminal.

    `Workload   text` and the indented lines below it become a label with a paragraph beside it.
    """
    shown: list[RenderableType] = []
    for block in parts(docstring):
        grid = labelled()
        for label, text in block:
            if label:
                grid.add_row(Text(label, "bold"), words(text))
            else:
                shown += [Text(words(text)), Text()]
        if grid.row_count:
            shown += [grid, Text()]
    return Group(*shown)


# Columns of a cost that few targets declare.
_EXTRAS = {**FURTHER, "tokens": "tokens"}


def _presets(benchmark: Benchmark, look: Look) -> Table:
    costs = {name: benchmark.work(sizes) for name, sizes in benchmark.task.presets.items()}
    table = _table(look)
    table.add_column("preset", no_wrap=True)
    table.add_column("sizes", overflow="fold")
    for heading in ("reads", "writes", "arithmetic"):
        table.add_column(heading, justify="right", no_wrap=True)
    extras = [name for name in _EXTRAS if any(getattr(cost, name) for cost in costs.values())]
    for name in extras:
        table.add_column(_EXTRAS[name], justify="right", no_wrap=True)
    for preset, sizes in benchmark.task.presets.items():
        cost = costs[preset]
        shown = units.parameters(sizes)
        amounts = [(name, getattr(cost, name)) for name in extras]
        more = [units.size(amount) if name.endswith("_bytes") else f"{amount:,.0f}" for name, amount in amounts]
        arithmetic = f"{units.rate(cost.flops, 'FLOP')} {cost.precision}" if cost.flops else "none"
        table.add_row(
            preset, Text(shown), units.size(cost.bytes_read), units.size(cost.bytes_written), arithmetic, *more
        )
    return table


def _implementations(implementations: Iterable[Implementation], look: Look) -> Table:
    table = _table(look)
    table.add_column("device", no_wrap=True)
    table.add_column("implementation", overflow="fold", max_width=40)
    table.add_column("what it is", overflow="fold")
    before = ""
    for one in implementations:
        if before:
            table.add_row()
        about = Text(_role(one), "dim" if one.role != "variant" else "")
        about.append("\n" + _demands(one) if _demands(one) else "", "dim")
        table.add_row(one.device if one.device != before else "", Text(words(one.name), "bold"), about)
        before = one.device
    return table


def _role(one: Implementation) -> str:
    if one.role == "baseline":
        return f"{one.kind} baseline"
    why = words(one.why)
    return why if one.role == "variant" else f"yardstick{f': {why}' if why else ''}"


def _demands(one: Implementation) -> str:
    parts = [
        f"needs {', '.join(one.requires)}" if one.requires else "",
        f"builds on {one.builds_on}" if one.builds_on else "",
        f"lossy: {one.lossy.metric} at most {one.lossy.budget:g}" if one.lossy else "",
    ]
    return "; ".join(filter(None, parts))


def _table(look: Look) -> Table:
    return Table(box=look.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
