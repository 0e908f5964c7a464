"""Cells of tables as texts, figures with the digits that their intervals allow."""

import math

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.result import Cell, Figure

NONE = "-"


def text(cell: Cell) -> str:
    """A cell without its interval."""
    return words(_shown(cell)[0])


def interval(cell: Cell) -> str:
    """The interval of a figure; empty for other cells."""
    return _shown(cell)[1]


def whole(cell: Cell) -> str:
    """A cell with its interval in brackets."""
    value, interval_ = _shown(cell)
    return f"{words(value)} {interval_}".rstrip()


def reason(cell: Cell) -> str:
    """Why a figure has no value; empty where it has one, or a bound."""
    if not isinstance(cell, Figure) or cell.value is not None or cell.low is not None or cell.high is not None:
        return ""
    return cell.reason or ""


def _shown(cell: Cell) -> tuple[str, str]:
    if cell is None:
        return NONE, ""
    if isinstance(cell, bool):
        return ("yes" if cell else "no"), ""
    if isinstance(cell, int):
        return f"{cell:,}", ""
    if isinstance(cell, str):
        return cell, ""
    if cell.value is None:
        return _bound(cell), ""
    if cell.unit == "s" and cell.value > 0:
        if cell.low is not None and cell.high is not None:
            shown = units.time_estimate(Estimate(cell.value, cell.low, cell.high))
            return shown.value, shown.interval
        return units.seconds(cell.value), ""
    if cell.unit == "s" and cell.value < 0 and cell.low is None:
        return f"-{units.seconds(-cell.value)}", ""
    ends = ""
    if cell.low is not None and cell.high is not None:
        if cell.unit == "1" and cell.low > 0:
            shown = units.ratio_estimate(Estimate(cell.value, cell.low, cell.high))
            return ("~" if cell.certainty == "estimated" else "") + shown.value, shown.interval
        low, high = (_end(end, cell.value, cell.unit) for end in (cell.low, cell.high))
        ends = f"[{low}, {high}]"
    about = "~" if cell.certainty == "estimated" else ""
    return about + number(cell.value, cell.unit, suffix=True), ends


def _bound(cell: Figure) -> str:
    """A figure without a value: a bound where it has one end."""
    for sign, end in (("<", cell.high), (">", cell.low)):
        if end is not None:
            return (
                f"{sign} {units.seconds(end) if cell.unit == 's' and end > 0 else number(end, cell.unit, suffix=True)}"
            )
    return NONE


def _end(end: float, value: float, unit: str) -> str:
    """An end of an interval, in the unit that the value is shown in."""
    return _three(end / _prefix(value)[0]) if unit in _PREFIXED and math.isfinite(end) else number(end, unit)


# Units with prefixes of powers of ten.
_PREFIXED = ("B/s", "FLOP/s", "OP/s", "1/s", "J", "J s", "J s2", "W", "token/s", "token/J", "FLOP", "Hz")
_PREFIXES = (
    (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"),
    (1e-12, "p"),
)  # fmt: skip


def number(value: float, unit: str, *, suffix: bool = False) -> str:
    """A number in its unit with three digits."""
    if not math.isfinite(value):
        return str(value)
    if unit == "B":
        return f"-{units.size(-value)}" if value < 0 else units.size(value)
    if unit == "%":
        shown = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
        return f"{shown} %" if suffix else shown
    if unit in _PREFIXED:
        scale, prefix = _prefix(value)
        shown = unit.removeprefix("1") if unit.startswith("1/") else unit
        return f"{_three(value / scale)} {prefix}{shown}"
    if unit == "1":
        return _three(value) + ("x" if suffix else "")
    if unit == "number":
        return _three(value)
    if unit == "count":
        return f"{value:,.0f}" if value == round(value) else _three(value)
    return f"{_three(value)} {unit}"


def _prefix(value: float) -> tuple[float, str]:
    """The prefix of a value, and its factor."""
    return next((prefix for prefix in _PREFIXES if abs(value) >= prefix[0]), _PREFIXES[-1]) if value else (1.0, "")


def _three(value: float) -> str:
    """Three digits, without an exponent where that is short."""
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 7:
        return f"{value:,.{max(0, 2 - size)}f}"
    return f"{value:.3g}"
