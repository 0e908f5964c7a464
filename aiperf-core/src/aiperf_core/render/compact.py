"""A whole run as one table, with a line for each implementation."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core.names import words
from aiperf_core.render.grid import Column, Line, table, total
from aiperf_core.render.look import Look
from aiperf_core.render.row_columns import COLUMNS, View, filled, in_order
from aiperf_core.render.summary import Finished, counted, skipped_lines
from aiperf_core.render.table import figures_of
from aiperf_core.results.models import Row, TargetResult

Pair = tuple[TargetResult, Row]
# The default columns, and what is left of them where the room is small.
SHOWN = (
    ("time", "speedup", "speedup-interval", "step_speedup", "step_speedup-interval", "verdict", "sol"),
    ("time", "speedup", "speedup-interval", "verdict", "sol"),
    ("time", "speedup", "speedup-interval", "verdict"),
    ("time", "speedup", "verdict"),
    ("speedup", "verdict"),
)


def render_compact(results: Sequence[Finished], look: Look, width: int | None, view: View) -> RenderableType:
    """The implementations of all targets, and below them the count of verdicts. `width` is None for any.

    Where the default columns do not fit, the last ones are left out; where still no line fits, rows are lists.
    """
    measured = [one for one in results if isinstance(one, TargetResult)]
    pairs = in_order([(result, row) for result in measured for row in result.rows], view.sort)
    columns = filled(view.columns, pairs, look) if view.filled else view.columns
    of_memory = any(one.goal == "memory" for one in measured)
    for chosen in [columns] if columns else [_with_memory(names) for names in SHOWN] if of_memory else SHOWN:
        drawn = _lines(pairs, chosen if view.columns else filled(chosen, pairs, look), look, width)
        if drawn:
            break
    else:
        drawn = _listed(pairs, chosen, look)
    return Group(*drawn, Text(), *skipped_lines(results), counted(results))


def _with_memory(columns: Sequence[str]) -> Sequence[str]:
    """The columns with those of the memory before the verdict, for runs with a goal in memory."""
    place = columns.index("verdict")
    return [*columns[:place], "memory", "memory_gain", *columns[place:]]


def _lines(pairs: Sequence[Pair], chosen: Sequence[str], look: Look, width: int | None) -> list[Text]:
    """The rows in a line each; none where they do not fit."""
    columns = [Column(("implementation",)), *(Column((COLUMNS[name].head,), COLUMNS[name].right) for name in chosen)]
    lines: list[Line] = [
        [[Text(_full_name(pair))], *([COLUMNS[name].show(*pair, look)] for name in chosen)] for pair in pairs
    ]
    return table(columns, lines, look) if width is None or total(columns, lines) <= width else []


def _listed(pairs: Sequence[Pair], chosen: Sequence[str], look: Look) -> list[Text]:
    label = max(len(COLUMNS[name].head) for name in chosen)
    drawn = []
    for pair in pairs:
        drawn += [Text(_full_name(pair), "bold"), *figures_of(*pair, chosen, look, label)]
    return drawn


def _full_name(pair: Pair) -> str:
    result, row = pair
    return f"{words(result.target)}:{words(row.name)}"
