"""The table of a target's result, as rich renderables. Nothing here prints.

Each row takes two lines: a figure, and below it the interval in the same unit. So the whole table fits into 80 columns.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.render.grid import Column, Line, draw, fold, heading, total, widths
from aiperf_core.render.look import Look
from aiperf_core.render.notes import notes_of, reasons_of, where_of
from aiperf_core.results.export import problem_size
from aiperf_core.results.models import DISBELIEVED, Row, SkippedTarget, TargetResult, Verdict

FOLDS = (40, 22, 16)  # longest line of a name, tried in this order
# Roles that are not part of the comparison; they stand below a rule.
APART = ("yardstick", "control")


def render(result: TargetResult, look: Look, width: int, where: str | None = None) -> RenderableType:
    """The whole result of a target: title, table, reasons, notes. `where` is the path of the bundle."""
    parts: list[RenderableType] = [*_title(result, look), Text(), *_rows(result.rows, look, width)]
    for notes in (reasons_of(result, look), notes_of(result, look)):
        if notes.row_count:
            parts += [Text(), notes]
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


def _rows(rows: Sequence[Row], look: Look, width: int) -> list[Text]:
    """The table. Names stand beside the figures, or above them where the width is too small."""
    ordered = sorted(rows, key=lambda row: row.role in APART)
    lit = any(row.speed_of_light and row.verdict not in DISBELIEVED for row in rows)
    columns = [
        Column(("implementation",)),
        Column(("median", "95 % interval"), right=True),
        Column(("speedup", "95 % interval"), right=True),
        Column(("verdict",)),
        Column(("rate", "of light") if lit else ("rate",), right=True),
        Column(("peak", "memory"), right=True),
    ]
    for limit in FOLDS:
        lines = [_cells(row, look, limit) for row in ordered]
        if total(columns, lines) <= width:
            return _beside(columns, lines, ordered, look)
    return _above(columns, lines, ordered, look)


def _beside(columns: list[Column], lines: list[Line], rows: list[Row], look: Look) -> list[Text]:
    wide = widths(columns, lines)
    drawn = draw(columns, heading(columns), wide)
    for before, row, line in zip([None, *rows], rows, lines, strict=False):
        drawn += [_between(before, row, total(columns, lines), look), *draw(columns, line, wide)]
    return drawn


def _above(columns: list[Column], lines: list[Line], rows: list[Row], look: Look) -> list[Text]:
    name, median, speedup, verdict, *rest = columns
    figures = [median, speedup, *rest]
    inner = [[line[1], line[2], *line[4:]] for line in lines]
    wide = widths(figures, inner)
    drawn = [Text(f"{name.head[0]}, {verdict.head[0]}"), *draw(figures, heading(figures), wide)]
    for before, row, line, cells in zip([None, *rows], rows, lines, inner, strict=False):
        parts = (Text(words(row.name), "bold"), Text(_mark(row), "dim"), *line[3])
        drawn += [_between(before, row, total(figures, inner), look), Text("  ").join(part for part in parts if part)]
        drawn += [text for text in draw(figures, cells, wide) if text]
    return drawn


def _between(before: Row | None, row: Row, across: int, look: Look) -> Text:
    """The line above a row: a rule below the headings and above the yardsticks, else an empty line."""
    rule = before is None or (row.role in APART and before.role not in APART)
    return Text(look.rule * across if rule else "", "dim")


def _cells(row: Row, look: Look, limit: int) -> Line:
    # The time of a row that is not believed is evidence, not a result: figures derived from it are not shown.
    trusted = row.verdict not in DISBELIEVED
    time = units.time_estimate(row.time_s) if row.time_s else units.Shown()
    speedup = units.speedup(row.speedup if trusted else None)
    verdict = Text() if row.verdict is Verdict.MEASURED else look.verdict(row.verdict)
    fraction = units.percent(row.speed_of_light.fraction) if row.speed_of_light and trusted else ""
    return [
        [*map(Text, fold(words(row.name), limit)), *_quiet(_mark(row))],
        [look.text(time.value, "" if trusted else "dim"), *_quiet(time.interval)],
        [look.text(speedup.value, "bold" if row.verdict is Verdict.FASTER else ""), *_quiet(speedup.interval)],
        [verdict],
        [Text(rate_of(row) if trusted else ""), *_quiet(fraction)],
        [Text(peak_of(row)), *_quiet(less_memory(row) if trusted else "")],
    ]


def _quiet(text: str) -> list[Text]:
    return [Text(text, "dim")] if text else []


def _mark(row: Row) -> str:
    return role_of(row) or ("lossy" if row.quality else "")


def role_of(row: Row) -> str:
    """The role in words: `naive baseline`, `A/A control`, `yardstick`; empty for a variant."""
    kind = f"{row.kind} " if row.kind else ""
    return {"baseline": f"{kind}baseline", "control": "A/A control", "yardstick": "yardstick"}.get(row.role, "")


def rate_of(row: Row) -> str:
    """The rate of the resource that bounds the row: bytes of memory, link or disk, or operations."""
    rates = {
        "memory": row.bytes_per_s,
        "compute": row.flop_per_s,
        "wire": row.wire_bytes_per_s,
        "disk": row.disk_bytes_per_s,
    }
    known = [bound for bound, rate in rates.items() if rate]
    bound = row.speed_of_light.bound if row.speed_of_light else ""
    if not known:
        return ""
    shown = bound if bound in known else known[0]
    return units.rate(rates[shown] or 0.0, "FLOP/s" if shown == "compute" else "B/s")


def peak_of(row: Row) -> str:
    """The peak memory, or an empty text."""
    peak = row.memory.most_bytes if row.memory else None
    return "" if peak is None else units.size(peak)


def less_memory(row: Row) -> str:
    """`4.00x less` where the verdict is about memory, else an empty text."""
    if row.memory_gain is None or row.verdict not in (Verdict.SMALLER, Verdict.LARGER):
        return ""
    less = row.verdict is Verdict.SMALLER
    return f"{units.number(row.memory_gain if less else 1 / row.memory_gain)}x {'less' if less else 'more'}"
