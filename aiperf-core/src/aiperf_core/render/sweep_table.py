"""The table of a sweep: a row for each point and implementation, in the order of the parameters."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.render.grid import Cell, Column, Line, draw, fold, heading, labelled, table, total, widths
from aiperf_core.render.look import LABEL, VERDICT_STYLES, Look
from aiperf_core.render.machine_notes import is_machine_wide, machine_notes
from aiperf_core.render.summary import counts, verdicts
from aiperf_core.report.drawings import at, spelled
from aiperf_core.results.models import TargetResult, Verdict
from aiperf_core.results.sweeps import Sweep, SweepRow

# Layouts, tried in this order: the longest line of a name, and whether the interval stands below the median.
LAYOUTS = ((40, False), (22, False), (16, False), (40, True), (22, True), (16, True))


def render_sweep(sweep: Sweep, look: Look, width: int) -> RenderableType:
    """The whole sweep of a target: title, table, reasons, warnings and the count of verdicts."""
    parts: list[RenderableType] = [*_title(sweep, look), Text(), *_table(sweep, look, width)]
    notes = labelled(LABEL)
    for label, note in _notes(sweep, look):
        notes.add_row(label, look.text(note))
    counted = [
        Text(f"{count} {one.value}", VERDICT_STYLES[one])
        for one, count in counts(verdicts(one for _, one in sweep.points))
    ]
    parts += [Text(), notes] if notes.row_count else []
    return Group(*parts, *([Text(), Text(", ").join(counted)] if counted else []))


def _title(sweep: Sweep, look: Look) -> list[Text]:
    devices = ", ".join(dict.fromkeys(words(one.device) for one in sweep.results))
    points = units.plural("point", len(sweep.points))
    facts = [devices, f"sweep of {' x '.join(map(words, sweep.parameters))}", points]
    head = Text(words(sweep.target), "bold").append("".join(f" {look.dot} {fact}" for fact in facts if fact))
    return [head, *(Text(words(one.summary)) for one in sweep.results[:1])]


def _table(sweep: Sweep, look: Look, width: int) -> list[Text]:
    """The table in the first layout that fits.

    Where none fits, the parameters stand above the rows of each point, and in a narrow terminal each figure is a line.
    """
    rows = sweep.rows
    for limit, below in LAYOUTS:
        columns = [*(Column((words(name),), right=True) for name in sweep.parameters), *_columns(below)]
        lines = [
            [*_values(sweep, before, row), *_cells(row, look, limit, below)]
            for before, row in zip([None, *rows], rows, strict=False)
        ]
        if total(columns, lines) <= width:
            return table(columns, lines, look)
    limit, below = LAYOUTS[-1]
    columns, lines = _columns(below), [_cells(row, look, limit, below) for row in rows]
    grouped = total(columns, lines) <= width
    wide = widths(columns, lines)
    drawn = draw(columns, heading(columns), wide) if grouped else []
    drawn += [Text(look.rule * (total(columns, lines) if grouped else width), "dim")]
    for before, row, line in zip([None, *rows], rows, lines, strict=False):
        drawn += [Text(at(sweep, row.values), "bold")] if before is None or before.values != row.values else []
        drawn += draw(columns, line, wide) if grouped else _list(line)
    return drawn


def _list(line: Line) -> Iterator[Text]:
    """A row of a narrow terminal: the name and the verdict, and below them the figures with their headings."""
    name, median, speedup, light, verdict = line
    yield Text(" ").join([*name, *verdict])
    for label, cell in (("median", median), ("speedup", speedup), ("SOL", light)):
        figure = Text(" ").join(part for part in cell if part)
        if figure:
            yield Text(f"  {label:<8}", "dim").append_text(figure)


def _columns(below: bool) -> list[Column]:
    median = [Column(("median", "95 % interval"), right=True)]
    return [
        Column(("implementation",)),
        *(median if below else [Column(("median",), right=True), Column(("95 % interval",))]),
        Column(("speedup",), right=True),
        Column(("SOL",), right=True),
        Column(("verdict",)),
    ]


def _values(sweep: Sweep, before: SweepRow | None, row: SweepRow) -> Iterator[Cell]:
    """The values of a point, in its first row only."""
    for name, value in row.values.items():
        yield [] if before is not None and before.values == row.values else [Text(spelled(sweep, name, value), "bold")]


def _cells(row: SweepRow, look: Look, limit: int, below: bool) -> Line:
    time = units.time_estimate(row.time_s) if row.time_s else units.Shown()
    speedup = units.speedup(row.speedup)
    median, interval = look.text(time.value), Text(time.interval, "dim")
    role = row.role if row.role != "variant" else ""
    verdict = Text(role or "", "dim") if row.verdict is Verdict.MEASURED else look.verdict(row.verdict)
    return [
        [*map(Text, fold(words(row.implementation or ""), limit))],
        *([[median, interval]] if below else [[median], [interval]]),
        [look.text(speedup.value, "bold" if row.verdict is Verdict.FASTER else "")],
        [Text(units.percent(row.speed_of_light.value) if row.speed_of_light else "")],
        [verdict],
    ]


def _notes(sweep: Sweep, look: Look) -> Iterator[tuple[Text, str]]:
    """Interrupted points, why rows are not believed, and the warnings, each with its points."""
    reasons: dict[tuple[Verdict, str, str], list[str]] = {}
    for row in sweep.rows:
        if not row.verdict.is_believed:
            key = row.verdict, words(row.implementation or ""), words(row.reason or "")
            reasons.setdefault(key, []).append(at(sweep, row.values))
    partial = [at(sweep, values) for values, one in sweep.points if isinstance(one, TargetResult) and not one.complete]
    if partial:
        yield Text("interrupted", "yellow"), f"at {'; '.join(partial)}: figures are partial"
    for (verdict, name, reason), points in reasons.items():
        yield look.verdict(verdict), f"{name} at {'; '.join(points)}: {reason}".lstrip()
    warnings: dict[str, list[str]] = {}
    for values, result in sweep.points:
        rows = result.rows if isinstance(result, TargetResult) else []
        findings = [finding for one in rows if one.is_believed for finding in one.findings]
        for finding in findings:
            if not is_machine_wide(finding):
                warnings.setdefault(finding.issue, []).append(at(sweep, values))
    for issue, points in warnings.items():
        names = dict.fromkeys(points)
        where = "all points" if len(names) == len(sweep.points) else "; ".join(names)
        yield Text("warning", "yellow"), f"{issue} at {where}"
    for label, note in machine_notes(sweep.results):
        yield Text(label, "yellow" if label == "warning" else "dim"), note
