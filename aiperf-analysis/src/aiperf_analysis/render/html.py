"""A result as one HTML page without anything from elsewhere: conclusion, pictures, tables, assumptions, sources."""

import functools

from markupsafe import Markup, escape

from aiperf_analysis.render import drawings
from aiperf_core.names import words
from aiperf_core.render import layout, svg
from aiperf_core.report import cell_text
from aiperf_core.report.result import Drawing, Result, Table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: var(--ink); background: var(--page); }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td.figure, th.figure { text-align: right; font-variant-numeric: tabular-nums; }
.quiet { color: var(--quiet); }
pre { white-space: pre-wrap; }
figure { margin: 1rem 0; }
svg text { stroke: var(--page); stroke-width: 3px; stroke-linejoin: round; paint-order: stroke; }
svg { display: block; width: 100%; height: auto; }
"""


def page(result: Result) -> str:
    """The page."""
    parts = [Markup("<h1>{}</h1>").format(words(result.title))]
    parts += [Markup("<p>{}</p>").format(words(one)) for one in result.summary]
    if result.text:
        parts.append(Markup("<pre>{}</pre>").format(result.text))
    for one in result.drawings:
        drawn = layout.both(functools.partial(_drawn, one))
        parts.append(
            Markup("<figure>{}<figcaption class=quiet>{}</figcaption></figure>").format(drawn, words(one.message))
        )
    parts += [_table(one) for one in result.tables]
    parts += _listed("Assumptions", [words(one) for one in result.assumptions])
    left_out = [f"{words(one.what)} {one.verdict}: {words(one.reason)}" for one in result.left_out]
    parts += _listed(f"Left out ({len(left_out)})", left_out)
    parts += _listed("Sources", [f"{words(one.path)} ({one.created}, {one.hardware})" for one in result.sources])
    head = Markup(
        "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>{}</title><style>{}</style>\n"
    )
    style = _colours() + _STYLE + svg.style_sheet() + layout.STYLE
    return str(head.format(words(result.title), Markup(style)) + Markup("\n").join(parts) + "\n")


def _drawn(drawing: Drawing, wide: float) -> svg.Picture:
    return drawings.picture(drawing, wide=wide)


def _colours() -> str:
    light = "".join(f"--{name}:{value};" for name, value in svg.PALETTE.items())
    dark = "".join(f"--{name}:{value};" for name, value in svg.DARK.items())
    return f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"


def _listed(title: str, lines: list[str]) -> list[Markup]:
    if not lines:
        return []
    items = Markup("").join(Markup("<li>{}</li>").format(one) for one in lines)
    return [Markup("<h2>{}</h2><ul>{}</ul>").format(title, items)]


def _table(table: Table) -> Markup:
    rows = []
    for record in table.records:
        cells = []
        for column in table.columns:
            cell = record.cells.get(column.key)
            why = cell_text.reason(cell)
            shown = escape(cell_text.text(cell))
            if cell_text.interval(cell):
                shown += Markup(" <span class=quiet>{}</span>").format(cell_text.interval(cell))
            if why:
                shown += Markup(" <span class=quiet>({})</span>").format(words(why))
            cells.append(Markup("<td class={}>{}</td>").format(column.form, shown))
        rows.append(Markup("<tr>{}</tr>").format(Markup("").join(cells)))
    heads = Markup("").join(Markup("<th class={}>{}</th>").format(one.form, words(one.title)) for one in table.columns)
    note = Markup("<p>{}</p>").format(words(table.note)) if table.note else Markup("")
    body = Markup("").join(rows)
    title = words(table.title)
    return Markup("<h2>{}</h2>{}<table><tr>{}</tr>{}</table>").format(title, note, heads, body)
