"""Pictures as lines of characters.

plain: ASCII only, for terminals without UTF-8 and for pipes.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from rich.cells import set_cell_size

from aiperf_analysis.sparkline import BLOCKS, PLAIN_BLOCKS
from aiperf_core import units
from aiperf_core.names import words
from aiperf_core.report import cell_text
from aiperf_core.report.result import Axis, Drawing, Figure, Point, Series

MARKS = "ox+*%#&$"
MOST_LINES = 40  # of a picture with a line for each point
NARROWEST_LABEL, WIDEST_LABEL = 8, 36
KINDS = {"compute": "#", "communication": "~", "copy": "=", "idle": "."}


def histogram(shares: Sequence[float], height: int, *, plain: bool = False) -> list[str]:
    """Bars upward, a column each. shares: the heights, 1 for the highest."""
    levels = PLAIN_BLOCKS if plain else BLOCKS
    steps = len(levels) - 1
    full = [round(one * height * steps) for one in shares]
    return ["".join(levels[min(steps, max(0, one - row * steps))] for one in full) for row in reversed(range(height))]


def drawn(drawing: Drawing, width: int, height: int, *, plain: bool = False) -> list[str]:
    """A picture with its message, axes and legend."""
    pictures = {"lines": plane, "scatter": plane, "flame": lanes, "timeline": lanes}
    picture = pictures.get(drawing.kind, bars)
    # A message may begin with the title.
    heads = [drawing.message] if drawing.message.startswith(drawing.title) else [drawing.title, drawing.message]
    return [*map(words, heads), "", *picture(drawing, width, height, plain=plain)]


def bars(drawing: Drawing, width: int, height: int, *, plain: bool = False) -> list[str]:
    """A line for each point: its label, its interval on the common axis, its figure."""
    points = [one for series in drawing.series for one in series.points if one.x.value is not None]
    if not points:
        return ["no points"]
    shown = points[:MOST_LINES]
    label = min(max(NARROWEST_LABEL, *(len(words(one.label)) for one in shown)), WIDEST_LABEL, width // 3)
    texts = [cell_text.whole(one.x) for one in shown]
    room = width - label - max(map(len, texts)) - 4
    ends = [end for one in shown for end in _ends(one.x)]
    filled = drawing.kind in ("bars", "waterfall") and not drawing.x.log
    low, high = _range([*ends, 0.0] if filled else ends, drawing.x.log)
    lines = []
    for one, text in zip(shown, texts, strict=True):
        name = set_cell_size(words(one.label), label)
        lines.append(f"{name}  {_bar(one, low, high, room, drawing.x.log, plain, filled)}  {text}" if room >= 8
                     else f"{name}  {text}")  # fmt: skip
    if len(points) > len(shown):
        lines.append(f"and {len(points) - len(shown)} more")
    return [*lines, "", f"across: {_axis(drawing.x)}"]


def _bar(point: Point, low: float, high: float, room: int, log: bool, plain: bool, filled: bool) -> str:
    line, mark = ("-", "o") if plain else ("─", "●")
    cells = [" "] * room
    start, middle, end = (_place(one, low, high, room, log) for one in _three(point.x))
    if filled:
        zero = _place(0.0, low, high, room, log)
        cells[min(zero, middle) : max(zero, middle) + 1] = ["=" if plain else "▬"] * (abs(middle - zero) + 1)
        return "".join(cells)
    cells[start : end + 1] = [line] * (end + 1 - start)
    cells[middle] = mark
    return "".join(cells)


def plane(drawing: Drawing, width: int, height: int, *, plain: bool = False) -> list[str]:
    """Points in a plane, a mark for each series, with their intervals and the ends of both axes."""
    kept = [
        (series, one)
        for series in drawing.series
        for one in series.points
        if _drawable(one.x.value, drawing.x) and _drawable(one.y.value, drawing.y)
    ]
    if not kept:
        return ["no points"]
    across = _range([end for _, one in kept for end in _ends(one.x)], drawing.x.log)
    upward = _range([end for _, one in kept for end in _ends(one.y)], drawing.y.log)
    tops = [_number(one, drawing.y) for one in reversed(upward)]
    gutter = max(map(len, tops))
    columns, rows = max(10, width - gutter - 2), max(4, height)
    wall, corner, floor = ("|", "+", "-") if plain else ("│", "└", "─")
    canvas = [[" "] * columns for _ in range(rows)]
    marks: list[tuple[int, int, str]] = []
    dot = "." if plain else "·"
    for series in drawing.series:
        if series.joined:
            _join([_at(one, drawing, across, upward, columns, rows) for of, one in kept if of is series], canvas, dot)
    for series, one in kept:
        if _is_line(series):
            continue
        left, x, right = (_place(at, *across, columns, drawing.x.log) for at in _three(one.x))
        low, y, high = (rows - 1 - _place(at, *upward, rows, drawing.y.log) for at in _three(one.y))
        for column in range(left, right + 1):
            canvas[y][column] = floor
        for row in range(high, low + 1):
            canvas[row][x] = wall
        marks.append((y, x, _mark(drawing.series, series)))
    for y, x, mark in marks:  # above all whiskers
        canvas[y][x] = mark
    heads = [tops[0], *[""] * (rows - 2), tops[1]]
    lines = [f"{head:>{gutter}} {wall}{''.join(row)}" for head, row in zip(heads, canvas, strict=True)]
    ends = [_number(one, drawing.x) for one in across]
    between = " " * max(1, columns - len(ends[0]) - len(ends[1]))
    legend = [
        f"{dot if _is_line(one) else _mark(drawing.series, one)} {words(one.name)}"
        for one in drawing.series
        if one.points
    ]
    return [
        *lines,
        f"{'':>{gutter}} {corner}{floor * columns}",
        f"{'':>{gutter}}  {ends[0]}{between}{ends[1]}",
        f"across: {_axis(drawing.x)}; up: {_axis(drawing.y)}",
        *(legend[:12] if len(legend) > 1 else []),
    ]


def _is_line(series: Series) -> bool:
    """Whether a series is a line without marks, such as a level or a fit."""
    return series.joined and all(one.mark == "fit" for one in series.points)


def _at(
    point: Point, drawing: Drawing, across: tuple[float, float], upward: tuple[float, float], columns: int, rows: int
) -> tuple[int, int]:
    """The cell of a point: its row and its column."""
    x = _place(_three(point.x)[1], *across, columns, drawing.x.log)
    return rows - 1 - _place(_three(point.y)[1], *upward, rows, drawing.y.log), x


def _join(places: Sequence[tuple[int, int]], canvas: list[list[str]], dot: str) -> None:
    """Draw straight lines from each cell to the next."""
    for (row, column), (last_row, last_column) in pairwise(places):
        steps = max(abs(last_row - row), abs(last_column - column), 1)
        for step in range(steps + 1):
            share = step / steps
            canvas[round(row + share * (last_row - row))][round(column + share * (last_column - column))] = dot


def _number(value: float, axis: Axis) -> str:
    return units.seconds(value) if axis.unit == "s" and value > 0 else cell_text.number(value, axis.unit)


def _mark(every: Sequence[Series], one: Series) -> str:
    return MARKS[next(number for number, other in enumerate(every) if other is one) % len(MARKS)]


def lanes(drawing: Drawing, width: int, height: int, *, plain: bool = False) -> list[str]:
    """A line for each lane of spans; each cell shows what takes most of it."""
    if not drawing.spans:
        return ["no spans"]
    begin = min(one.start for one in drawing.spans)
    length = max(one.start + one.length for one in drawing.spans) - begin or 1.0
    names = list(dict.fromkeys(one.lane for one in drawing.spans))[:MOST_LINES]
    label = min(max(len(words(one)) for one in names), width // 4)
    room = max(10, width - label - 2)
    lines = []
    for name in names:
        share = [0.0] * room
        cells = [" "] * room
        for one in drawing.spans:
            if one.lane != name:
                continue
            start, end = ((at - begin) / length * room for at in (one.start, one.start + one.length))
            for cell in range(int(start), min(room, math.ceil(end))):
                part = min(end, cell + 1) - max(start, cell)
                if part > share[cell]:
                    share[cell], cells[cell] = part, KINDS.get(one.kind) or (words(one.label) or "#")[:1]
        lines.append(f"{set_cell_size(words(name), label)}  {''.join(cells)}")
    used = dict.fromkeys(one.kind for one in drawing.spans if one.kind in KINDS)
    return [*lines, "", f"across: {_axis(drawing.x)}", *(f"{KINDS[one]} {one}" for one in used)]


def _axis(axis: Axis) -> str:
    return words(f"{axis.title}{', logarithmic' if axis.log else ''}")


def _drawable(value: float | None, axis: Axis) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not axis.log)


def _three(figure: Figure) -> tuple[float, float, float]:
    value = float(figure.value or 0.0)
    low, high = figure.low, figure.high
    return (value if low is None else low), value, (value if high is None else high)


def _ends(figure: Figure) -> tuple[float, float]:
    low, _, high = _three(figure)
    return low, high


def _range(values: Sequence[float], log: bool) -> tuple[float, float]:
    """The least and the greatest value; a little around a single one."""
    kept = [one for one in values if math.isfinite(one) and (one > 0 or not log)] or [1.0]
    low, high = min(kept), max(kept)
    if low < high:
        return low, high
    return (low / 1.1, high * 1.1) if log else (low - abs(low) * 0.1 - 1e-12, high + abs(high) * 0.1 + 1e-12)


def _place(value: float, low: float, high: float, room: int, log: bool) -> int:
    """The cell of a value on an axis; values outside stand at its ends."""
    if log:
        value, low, high = (math.log(max(one, 1e-300)) for one in (value, low, high))
    return min(room - 1, max(0, round((value - low) / (high - low) * (room - 1))))
