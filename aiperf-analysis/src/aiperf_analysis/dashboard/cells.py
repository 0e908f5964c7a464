"""The lines of tables as markup. A page may have thousands of cells, for which templates take ten times as long."""

import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from aiperf_analysis.dashboard import guard
from aiperf_analysis.dashboard.shown import Cell, Line, ShownTable
from aiperf_core.names import words

# Longer texts of bundles are shown by their beginning; the JSON has them whole. An address is cut where no server takes
# it; it begins with `/`.
MOST_LETTERS = 300
# A longer name, or a text of these kinds, may break behind these characters, rather than within a word or a number.
UNBROKEN, BROKEN, _BREAKS = 14, ("", "long", "text", "words"), re.compile(r"([._:/])(?=\w)(?!(?<=\d.)\d)")


def plain(value: Any) -> Any:
    """The last step of every value: no control characters, and no text without end. It is then escaped."""
    if isinstance(value, Markup | int):
        return value
    text = words(str(value))
    most = guard.ADDRESS_BYTES if text.startswith("/") else MOST_LETTERS
    return text if len(text) <= most else f"{text[:most]}…"


def body(table: ShownTable) -> Markup:
    """The lines of a table."""
    return Markup("".join(_line(one, traced=table.traced, tips=table.tips) for one in table.lines))


def _line(line: Line, *, traced: bool, tips: Sequence[str]) -> str:
    """A line. A reason that the line has in words already is told by the tip of its cell alone."""
    texts, last = {cell.text for cell in line.cells}, ""
    parts = ["<tr>"]
    for place, cell in enumerate(line.cells):
        told = bool(cell.reason) and ("reason" in tips or cell.reason in {*texts, last})
        parts.append(_cell(cell, first=place == 0, told=told, terse="interval" in tips))
        last = cell.reason or last
    if traced:
        led = ", ".join(f'<a href="{escape(plain(href))}">{escape(plain(name))}</a>' for name, href in line.sources)
        more = f" and {line.more} more" if line.more > 0 else ""
        parts.append(f'<td class="from">{led}{more}</td>')
    return "".join([*parts, "</tr>\n"])


def _cell(cell: Cell, *, first: bool, told: bool, terse: bool) -> str:
    kinds = _kinds(cell)
    text = breakable(cell.text) if (first or kinds in BROKEN) and not terse else escape(plain(cell.text))
    if cell.form == "verdict" and cell.text not in ("", "-"):
        text = verdict(cell.text)
    if cell.href:
        text = Markup(f'<a href="{escape(plain(cell.href))}">{text}</a>')
    tip = cell.reason if told else ""
    if terse:  # a long text may be cut
        tip = ", ".join(filter(None, (cell.text if len(cell.text) > UNBROKEN else "", cell.interval, tip)))
    return "".join(
        (
            "<th scope=row" if first else "<td",
            f' class="{kinds}"' if kinds else "",
            f' data-sort="{escape(cell.sort)}"' if cell.sort else "",
            f' title="{escape(plain(tip))}"' if tip else "",
            f">{text}",
            f'<span class="below">{_interval(cell)}</span>' if cell.interval and not terse else "",
            f'<span class="below why">{escape(plain(cell.reason))}</span>' if cell.reason and not told else "",
            "</th>" if first else "</td>",
        )
    )


def _interval(cell: Cell) -> Markup:
    """What stands below a text. The ends of an interval do not break between number and unit, but on paper."""
    text = escape(plain(cell.interval))
    low, comma, high = text.partition(", ")
    with_units = cell.form == "figure" and " " in low and comma
    return Markup(f"<span>{low},</span> <span>{high}</span>") if with_units else text


def breakable(name: str) -> Markup:
    """A name that breaks behind its dots, underscores and colons where it is long."""
    text = str(escape(plain(name)))
    return Markup(_BREAKS.sub(r"\1<wbr>", text) if len(name) > UNBROKEN else text)


def verdict(word: str) -> Markup:
    """A verdict: its word, whose class gives it a shape and a colour."""
    kind = escape(plain(word.replace(" ", "-")))
    return Markup(f'<span class="verdict v-{kind}">{escape(plain(word))}</span>')


def _kinds(cell: Cell) -> str:
    """The classes that say how a text may be broken: by its longest word, its length, and its blanks."""
    number = "n" if cell.form == "figure" else ""
    text = cell.text
    if len(text) > 40 and max(map(len, text.split()), default=0) > 40:
        kind = "long"
    elif len(text) > 60:
        kind = "text"
    elif len(text) > 24 and " " in text:
        kind = "words"
    else:
        kind = "short" if len(text) < 18 else ""
    return f"{number} {kind}".strip()
