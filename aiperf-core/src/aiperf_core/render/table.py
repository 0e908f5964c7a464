"""The table of a target's result, as rich renderables. Nothing here prints.

A row is a line. The columns depend on the width of the terminal and on the goal alone, and have a width that nearly all
figures fit in, so the tables of a run are laid out alike; the names get the rest. Where a line has no room, a row is a
list.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core.names import words
from aiperf_core.render.grid import GAP, Column, draw, fold, heading
from aiperf_core.render.look import Look
from aiperf_core.render.notes import brief_notes, grid_of, notes, reasons_of, where_of
from aiperf_core.render.row_columns import COLUMNS, DEFAULT, View, filled, in_order
from aiperf_core.report.text import problem_size
from aiperf_core.results.models import Row, SkippedTarget, TargetResult
from aiperf_core.simulated import how_taken

# The columns by the least width of the terminal, for a goal in time and for one in memory.
LAYOUTS: dict[int, tuple[str, ...]] = {
    120: ("time", "time-interval", "speedup", "speedup-interval", "verdict", "sol", "memory"),
    100: ("time", "time-interval", "speedup", "speedup-interval", "verdict", "of_peak"),
    76: ("time", "time-interval", "speedup", "verdict", "of_peak"),
}
MEMORY_LAYOUTS: dict[int, tuple[str, ...]] = {
    120: ("memory", "memory_gain", "time", "time-interval", "speedup", "speedup-interval", "verdict"),
    100: ("memory", "memory_gain", "time", "time-interval", "verdict"),
    76: ("memory", "memory_gain", "time", "verdict"),
}
# Of a list.
NARROW = (
    "verdict", "time", "time-interval", "speedup", "speedup-interval", "step_speedup", "step_speedup-interval",
    "memory", "memory_gain", "rate", "sol",
)  # fmt: skip
NARROWEST_NAME, WIDEST_NAME = 10, 40
# Roles that are not part of the comparison; they stand at the end.
APART = ("yardstick", "control")


def render(
    result: TargetResult, look: Look, width: int, where: str | None = None, view: View = DEFAULT
) -> RenderableType:
    """The result of a target: title, table, reasons, notes. `where` is the path of the bundle.

    With all columns, also all notes; else those that ask for something.
    """
    title, table = _title(result, look, verbose=view.filled), _rows(result, look, width, view)
    parts: list[RenderableType] = [*title, Text(), *table]
    chosen = notes(result) if view.filled else brief_notes(result)
    for grid in (reasons_of(result, look), grid_of(chosen, look)):
        if grid.row_count:
            parts += [Text(), grid]
    if where:
        parts.append(where_of(where, look, width))
    return Group(*parts)


def render_skipped(skipped: SkippedTarget, look: Look) -> RenderableType:
    """A target that did not run."""
    line = Text.assemble((words(skipped.target), "bold"), "  ", look.verdict(skipped.verdict))
    return Group(line, Text(words(skipped.reason)))


def _title(result: TargetResult, look: Look, *, verbose: bool) -> list[Text]:
    head = look.text("").join(
        [
            Text(words(result.target), "bold"),
            Text(f" {look.dot} {words(result.device)} {look.dot} "),
            look.text(problem_size(result.problem)),
        ]
    )
    how = f"{how_taken(result.simulated, result.clock, result.cache)}, {result.problem.tolerance}"
    return [head, Text(words(result.summary)), *([Text(words(how), "dim")] if verbose else [])]


def _rows(result: TargetResult, look: Look, width: int, view: View) -> list[Text]:
    """The table: as a grid where it fits, else as a list."""
    pairs = in_order([(result, row) for row in result.rows], view.sort)
    rows = sorted((row for _, row in pairs), key=lambda row: row.role in APART)
    chosen = _columns(result, width, view)
    if view.filled:
        chosen = filled(chosen, pairs, look)
    cells = [[COLUMNS[name].show(result, row, look) for name in chosen] for row in rows]
    wide = [
        max(COLUMNS[name].width, *(line[index].cell_len for line in cells)) if cells else COLUMNS[name].width
        for index, name in enumerate(chosen)
    ]
    left = width - sum(wide) - GAP * len(wide)
    if left < NARROWEST_NAME:
        return _list(result, rows, chosen, look, width)
    columns = [
        Column(("implementation",)),
        *(Column((COLUMNS[name].head,), COLUMNS[name].right) for name in chosen),
    ]
    widths = [min(left, WIDEST_NAME), *wide]
    drawn = [*draw(columns, heading(columns), widths)]
    drawn.append(Text(look.rule * (sum(widths) + GAP * len(wide)), "dim"))
    for row, line in zip(rows, cells, strict=True):
        drawn += draw(columns, [[*map(Text, fold(words(row.name), widths[0]))], *([cell] for cell in line)], widths)
    return drawn


def _columns(result: TargetResult, width: int, view: View) -> tuple[str, ...]:
    """The names of the columns: those of the user, or those that the width has room for."""
    if view.columns:
        return view.columns
    layouts = MEMORY_LAYOUTS if result.goal == "memory" else LAYOUTS
    return next((names for least, names in layouts.items() if width >= least), NARROW)


def _list(result: TargetResult, rows: Sequence[Row], chosen: Sequence[str], look: Look, width: int) -> list[Text]:
    """The rows as lists of labels and figures."""
    names = [name for name in chosen if name != "verdict"]
    label = max((len(COLUMNS[name].head) for name in names if not COLUMNS[name].extends), default=0)
    drawn = [Text("implementation, verdict")]
    for index, row in enumerate(rows):
        drawn.append(Text("" if index else look.rule * width, "dim"))
        verdict = COLUMNS["verdict"].show(result, row, look)
        drawn.append(Text("  ").join([part for part in (Text(words(row.name), "bold"), verdict) if part]))
        drawn += figures_of(result, row, names, look, label)
    return drawn


def figures_of(result: TargetResult, row: Row, chosen: Sequence[str], look: Look, label: int) -> list[Text]:
    """The figures of a row as a list, with labels of the given width."""
    drawn: list[Text] = []
    for name in chosen:
        shown, column = COLUMNS[name].show(result, row, look), COLUMNS[name]
        if not shown:
            continue
        if column.extends in chosen and drawn:
            drawn[-1].append("  ").append_text(shown)
        else:
            drawn.append(Text.assemble(f"  {column.head:<{label}}  ").append_text(shown))
    return drawn
