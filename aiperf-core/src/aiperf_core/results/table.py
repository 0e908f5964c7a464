"""The table of a target's result, as rich renderables. Nothing here prints.

Each row takes two lines: a figure, and below it in the same unit the interval that belongs to it. So the whole fits
into 80 columns without leaving out or cutting anything.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aiperf_core.results import units
from aiperf_core.results.look import Look, words
from aiperf_core.results.models import Problem, Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.results.notes import UNTRUSTED, notes_of, reasons_of, where_of

FOLD = 22  # a name longer than this is folded at its underscores


def render(result: TargetResult, look: Look, width: int, where: str | None = None) -> RenderableType:
    """A target's whole result: title, table, why the best variant is best, reasons, notes. `where` it lies on disk."""
    parts: list[RenderableType] = [*_title(result, look), Text(), _rows(result.rows, look)]
    for notes in (reasons_of(result, look), notes_of(result, look)):
        if notes.row_count:
            parts += [Text(), notes]
    if where:
        parts.append(where_of(where, look, width))
    return Group(*parts)


def render_skipped(skipped: SkippedTarget, look: Look) -> RenderableType:
    """A target of which nothing ran."""
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


def problem_size(problem: Problem) -> str:
    """The sizes of a workload and of its data: `n=33,554,432 (128 MiB in, 128 MiB out)`."""
    sizes = " ".join(f"{words(name)}={units.parameter(value)}" for name, value in problem.params.items())
    data = f"({units.size(problem.input_bytes)} in, {units.size(problem.output_bytes)} out)"
    return f"{sizes} {data}".strip()


def _rows(rows: Sequence[Row], look: Look) -> Table:
    table = Table(box=look.box, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), leading=0, header_style="")
    lit = any(row.light and row.verdict not in UNTRUSTED for row in rows)
    table.add_column(_two("implementation", ""), overflow="fold", min_width=14)
    table.add_column(_two("median", "95 % interval"), justify="right", no_wrap=True)
    table.add_column(_two("speedup", "95 % interval"), justify="right", no_wrap=True)
    table.add_column(_two("verdict", ""), no_wrap=True)
    table.add_column(_two("rate", "of light" if lit else ""), justify="right", no_wrap=True)
    table.add_column(_two("peak", "memory"), justify="right", no_wrap=True)
    ours = [row for row in rows if row.role != "yardstick"]
    yardsticks = [row for row in rows if row.role == "yardstick"]
    for group in (ours, yardsticks):
        for index, row in enumerate(group):
            if index:
                table.add_row()
            table.add_row(*_cells(row, look))
        if group is ours and yardsticks:
            table.add_section()
    return table


def _cells(row: Row, look: Look) -> list[Text]:
    # The time of a row that is not believed is evidence, not a result: it is shown, but nothing derived from it.
    trusted = row.verdict not in UNTRUSTED
    time = units.time_estimate(row.time_s) if row.time_s else units.Shown("", "")
    speedup = units.ratio_estimate(row.speedup) if row.speedup and trusted else units.Shown("", "")
    verdict = Text() if row.verdict is Verdict.MEASURED else look.verdict(row.verdict)
    fraction = units.percent(row.light.fraction) if row.light and trusted else ""
    return [
        _two(fold(words(row.name)), _mark(row)),
        _two(look.text(time.value, "" if trusted else "dim"), look.text(time.interval)),
        _two(look.text(speedup.value, "bold" if row.verdict is Verdict.FASTER else ""), look.text(speedup.interval)),
        verdict,
        _two(rate_of(row) if trusted else "", fraction),
        Text(_peak(row)),
    ]


def _two(first: str | Text, second: str | Text) -> Text:
    """Two lines of a cell; the second is quieter."""
    lines = Text(first) if isinstance(first, str) else first.copy()
    if second:
        lines.append("\n")
        lines.append(str(second), "dim")
    return lines


def _mark(row: Row) -> str:
    if row.role == "baseline":
        return f"{row.kind} baseline" if row.kind else "baseline"
    if row.role == "yardstick":
        return "yardstick"
    return "lossy" if row.quality else ""


def rate_of(row: Row) -> str:
    """The rate of what bounds the row: bytes where memory does, operations where arithmetic does."""
    computes = row.light.bound == "compute" if row.light else not row.bytes_per_s
    if computes and row.flop_per_s:
        return units.rate(row.flop_per_s, "FLOP/s")
    return units.rate(row.bytes_per_s, "B/s") if row.bytes_per_s else ""


def _peak(row: Row) -> str:
    memory = row.memory
    if memory is None:
        return ""
    peak = memory.host_peak_bytes if memory.peak_bytes is None else memory.peak_bytes
    return "" if peak is None else units.size(peak)


def fold(name: str, width: int = FOLD) -> str:
    """Break a long name after underscores, so that it is read in its own words and never cut."""
    lines = [""]
    for part in name.replace("_", "_\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
