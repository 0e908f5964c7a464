"""The table of a target's result, as rich renderables. Nothing here prints.

The layout depends on the width alone, so the tables of a run are laid out alike: columns have a width that nearly all
figures fit in, and the names get the rest. From 120 columns on, intervals have columns of their own; from 76 on they
stand below their figures; below 76 a row is a list. The speedup of a step is a line below the speedup.
"""

import textwrap
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core.names import words
from aiperf_core.render.grid import GAP, Column, Line, draw, fold, heading
from aiperf_core.render.look import Look
from aiperf_core.render.notes import grid_of, notes, reasons_of, where_of
from aiperf_core.render.row_columns import COLUMNS, DEFAULT, View, filled, in_order
from aiperf_core.report.text import problem_size
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict

# Columns above each other: the first line of a cell, the second, and so on.
Stack = tuple[str, ...]
STACKED: tuple[Stack, ...] = (
    ("time", "time-interval"),
    ("speedup", "speedup-interval", "step_speedup", "step_speedup-interval"),
    ("verdict", "memory", "memory_gain"),
    ("rate", "sol"),
)
INLINE: tuple[Stack, ...] = (
    ("time",),
    ("time-interval",),
    ("speedup",),
    ("speedup-interval", "step_speedup", "step_speedup-interval"),
    ("verdict",),
    ("rate", "sol"),
    ("memory", "memory_gain"),
)
INLINE_FROM, STACKED_FROM = 120, 76  # least width of each layout
# Figures that share a line with their heading. It reaches over the empty cells to its left.
STEP = ("step_speedup", "step_speedup-interval")
NARROWEST_NAME, WIDEST_NAME = 10, 40
# Roles that are not part of the comparison; they stand below a rule.
APART = ("yardstick", "control")


def render(
    result: TargetResult, look: Look, width: int, where: str | None = None, view: View = DEFAULT
) -> RenderableType:
    """The whole result of a target: title, table, reasons, notes. `where` is the path of the bundle."""
    parts: list[RenderableType] = [*_title(result, look), Text(), *_rows(result, look, width, view)]
    for grid in (reasons_of(result, look), grid_of(notes(result), look)):
        if grid.row_count:
            parts += [Text(), grid]
    if where:
        parts.append(where_of(where, look, width))
    return Group(*parts)


def render_skipped(skipped: SkippedTarget, look: Look) -> RenderableType:
    """A target that did not run."""
    line = Text.assemble((words(skipped.target), "bold"), "  ", look.verdict(skipped.verdict))
    return Group(line, Text(words(skipped.reason)))


def _title(result: TargetResult, look: Look) -> list[Text]:
    how = f"{result.clock} clock, {result.cache} cache, {result.problem.tolerance}"
    head = look.text("").join(
        [
            Text(words(result.target), "bold"),
            Text(f" {look.dot} {words(result.device)} {look.dot} "),
            look.text(problem_size(result.problem)),
        ]
    )
    return [head, Text(words(result.summary)), Text(words(how), "dim")]


def _rows(result: TargetResult, look: Look, width: int, view: View) -> list[Text]:
    """The table: as a grid where it fits, else as a list."""
    pairs = in_order([(result, row) for row in result.rows], view.sort)
    rows = sorted((row for _, row in pairs), key=lambda row: row.role in APART)
    if view.columns:
        chosen = filled(view.columns, pairs, look) if view.filled else view.columns
        stacks: tuple[Stack, ...] = tuple((name,) for name in chosen)
    else:
        stacks = INLINE if width >= INLINE_FROM else STACKED
    names = [name for stack in stacks for name in stack]
    cells = [{name: COLUMNS[name].show(result, row, look) for name in names} for row in rows]
    columns = [_column(cells, stack) for stack in stacks]
    wide = [_width(cells, stack) for stack in stacks]
    left = width - sum(wide) - GAP * len(wide)
    if left < NARROWEST_NAME or (not view.columns and width < STACKED_FROM):
        return _list(result, rows, stacks, look, width)
    name = min(left, WIDEST_NAME)
    figures = [[_stack(shown, stack) for stack in stacks] for shown in cells]
    columns = [Column(("implementation"[:name],)), *columns]
    return _grid(columns, [name, *wide], rows, figures, look, spaced=stacks is STACKED)


def _width(cells: Sequence[Mapping[str, Text]], stack: Stack) -> int:
    return max([*(COLUMNS[name].width for name in stack), *(shown[name].cell_len for shown in cells for name in stack)])


def _column(cells: Sequence[Mapping[str, Text]], stack: Stack) -> Column:
    """The heading of a stack. Figures below the first that no row has are left out."""
    first, *others = stack
    below = [name for name in others if name not in STEP]
    filled_below = [name for name in below if any(shown[name] for shown in cells)]
    heads = [COLUMNS[name].head for name in (first, *filled_below)]
    return Column(tuple(head for head in heads if head), COLUMNS[first].right)


def _stack(shown: Mapping[str, Text], stack: Stack) -> list[Text]:
    """The figures of a row above each other. An empty figure keeps its line where others follow."""
    if len(stack) == 1:
        return [shown[name] for name in stack if shown[name]]
    cell = [shown[name] for name in stack if name not in STEP]
    step = [shown[name] for name in STEP if name in stack]
    if any(step):
        cell.append(Text(" ").join([Text("step"), *step]))
    for text in cell[1:]:
        text.stylize_before("dim")
    while cell and not cell[-1]:
        cell.pop()
    return cell


def _grid(
    columns: list[Column], wide: list[int], rows: Sequence[Row], figures: Sequence[Line], look: Look, *, spaced: bool
) -> list[Text]:
    """Draw the rows below their headings; `spaced` ones have an empty line between them."""
    across = sum(wide) + GAP * (len(wide) - 1)
    drawn, before = draw(columns, heading(columns), wide), None
    lines = [[_name(row, wide[0]), *cells] for row, cells in zip(rows, figures, strict=True)]
    for row, line in zip(rows, lines, strict=True):
        if before is None or (row.role in APART and before.role not in APART):
            drawn.append(Text(look.rule * across, "dim"))
        elif spaced:
            drawn.append(Text())
        drawn += draw(columns, line, wide)
        before = row
    return drawn


def _name(row: Row, width: int) -> list[Text]:
    mark = [Text(part, "dim") for part in textwrap.wrap(_mark(row), width)]
    return [*map(Text, fold(words(row.name), width)), *mark]


def _list(result: TargetResult, rows: Sequence[Row], stacks: Sequence[Stack], look: Look, width: int) -> list[Text]:
    """The rows as lists of labels and figures."""
    chosen = [name for stack in stacks for name in stack if name != "verdict"]
    label = max((len(COLUMNS[name].head) for name in chosen if not COLUMNS[name].extends), default=0)
    drawn, before = [Text("implementation, verdict")], None
    for row in rows:
        rule = before is None or (row.role in APART and before.role not in APART)
        drawn.append(Text(look.rule * width if rule else "", "dim"))
        verdict = look.verdict(row.verdict) if row.verdict is not Verdict.MEASURED else Text()
        parts = (Text(words(row.name), "bold"), Text(_mark(row), "dim"), verdict)
        drawn.append(Text("  ").join([part for part in parts if part]))
        drawn += figures_of(result, row, chosen, look, label)
        before = row
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


def _mark(row: Row) -> str:
    return role_of(row) or ("lossy" if row.quality else "")


def role_of(row: Row) -> str:
    """The role in words: `naive baseline`, `A/A control`, `yardstick`; empty for a variant."""
    kind = f"{row.kind} " if row.kind else ""
    return {"baseline": f"{kind}baseline", "control": "A/A control", "yardstick": "yardstick"}.get(row.role, "")
