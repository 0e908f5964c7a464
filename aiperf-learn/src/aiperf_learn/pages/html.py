"""Lessons as HTML: fragments for pages of others, with their style sheet, and a page of its own."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen
from markupsafe import Markup

from aiperf_core.report import cell_text, html, layout, picture, svg
from aiperf_learn.pages.code import Line, StepCode
from aiperf_learn.pages.highlight import STYLE, highlighted
from aiperf_learn.pages.model import CHANGED, LessonPage, anchor, claim_text

# The code of a step of more lines is folded.
LONG = 80
# The class and the first letters of a line of a difference by its sign.
_FORMS = {"+": ("add", "+"), "-": ("less", "-"), "=": ("names", " "), " ": ("", " "), "@": ("gap", "...")}
_PAGE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--page); }
h1 { overflow-wrap: anywhere; font-size: clamp(1.3rem, 5.5vw, 2rem); }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
"""
_STYLE = """
WITHIN { color: var(--ink); }
WITHIN code, WITHIN pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
WITHIN .quiet { color: var(--quiet); font-size: .85em; overflow-wrap: anywhere; }
WITHIN .summary { font-size: 1.1em; font-weight: 600; }
WITHIN dt { font-weight: 600; } WITHIN dd { margin: 0 0 .5rem 0; }
WITHIN .wide { overflow-x: auto; } WITHIN .wide table { min-width: 34rem; }
WITHIN table { border-collapse: collapse; font-size: .82em; margin: .5rem 0; }
WITHIN th, WITHIN td { padding: .25rem .5rem .25rem 0; text-align: left; vertical-align: top; border: 0;
  border-bottom: 1px solid var(--line); }
WITHIN td.figure, WITHIN th.figure { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
WITHIN figure { margin: 1rem 0; }
WITHIN svg { width: 100%; height: auto; max-width: 45rem; }
WITHIN svg text { stroke: var(--page); stroke-width: 3px; stroke-linejoin: round; paint-order: stroke; }
WITHIN summary { cursor: pointer; padding: .25rem 0; }
WITHIN details { border-top: 1px solid var(--line); margin: .25rem 0; }
WITHIN .file { margin: .5rem 0 0; font-size: .85em; }
WITHIN pre { font-size: .8rem; line-height: 1.4; overflow-x: auto; background: var(--page); color: var(--ink);
  border: 1px solid var(--line);
  margin: .25rem 0 .75rem; padding: .5rem; }
WITHIN pre span { display: block; width: max-content; min-width: 100%; }
WITHIN pre i { font-style: normal; }
WITHIN pre .add { background: color-mix(in srgb, var(--good) 10%, var(--page)); box-shadow: -4px 0 var(--good); }
WITHIN pre .less { background: color-mix(in srgb, var(--bad) 10%, var(--page)); box-shadow: -4px 0 var(--bad); }
WITHIN pre .names { background: color-mix(in srgb, var(--warn) 10%, var(--page)); box-shadow: -4px 0 var(--warn); }
WITHIN pre .gap { color: var(--quiet); }
WITHIN .verdict:not([class*="v-"])::before { content: none; }
WITHIN .v-FASTER, WITHIN .v-SMALLER { color: var(--good); font-weight: 600; }
WITHIN .v-SLOWER, WITHIN .v-LARGER, WITHIN .v-INCONCLUSIVE { color: var(--warn); font-weight: 600; }
@media print { WITHIN h2 { break-after: avoid; }
  WITHIN details:not(.whole)::details-content { content-visibility: visible; block-size: auto; }
  WITHIN pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  WITHIN pre span { width: auto; } WITHIN figure, WITHIN tr { break-inside: avoid; } }
"""


@frozen(slots=False)
class _ShownStep:
    """A step with the lines of its files, or of its differences, as HTML."""

    code: StepCode

    @functools.cached_property
    def files(self) -> dict[str, list[tuple[str, Markup]]]:
        if not self.code.parent:
            return {name: _whole(name, text) for name, text in self.code.files.items()}
        return {name: [*self._difference(name, lines)] for name, lines in self.code.changes.items()}

    @property
    def is_short(self) -> bool:
        return sum(map(len, self.files.values())) <= LONG

    def _difference(self, name: str, lines: Iterable[Line]) -> Iterator[tuple[str, Markup]]:
        before, after = (highlighted(name, files.get(name, "")) for files in (self.code.before, self.code.files))
        for line in lines:
            style, sign = _FORMS[line.sign]
            shown = Markup() if line.sign == "@" else (before if line.sign == "-" else after)[line.number]
            yield style, Markup(sign) + shown


def _whole(name: str, text: str) -> list[tuple[str, Markup]]:
    return [("", line) for line in highlighted(name, text.rstrip("\n"))[: len(text.rstrip("\n").splitlines())]]


def sections(page: LessonPage) -> list[tuple[str, str]]:
    """The parts of a lesson as HTML, each with its title; the first has none. All texts are escaped."""
    template = html.environment("aiperf_learn.pages").get_template("lesson.html.jinja")
    parts: Any = template.make_module(
        {
            "steps": [_ShownStep(step) for step in page.steps],
            "whole": {name: _whole(name, text) for name, text in page.files.items()},
            **_SHARED,
        }
    )
    titled = [
        ("", parts.lead(page)),
        ("Results", parts.results(page) if page.ladders or page.missing else ""),
        ("Mechanism", Markup().join(map(parts.figure, page.mechanisms))),
        ("Code", parts.code(page) if page.files else ""),
        ("Evidence", parts.evidence(page) if page.goals or page.claims else ""),
        ("When it turns round", parts.limits(page) if page.limits or page.sweeps else ""),
        ("Exercise", parts.exercise(page)),
    ]
    return [(title, str(content)) for title, content in titled if content]


def html_fragment(page: LessonPage) -> str:
    """A lesson as an element of a page that has `style_sheet()` and the colours of `report.svg` as properties."""
    parts = (f"<h2>{title}</h2>\n{content}" if title else content for title, content in sections(page))
    return "\n".join(['<div class="lesson">', *parts, "</div>"])


def style_sheet(within: str = ".lesson") -> str:
    """The style sheet of lessons. `within` is the selector of the elements that hold them."""
    words = "".join(f"{within} pre {rule.strip()}\n" for rule in re.findall(r"\.[^}]*}", STYLE))
    return f"{layout.STYLE}{svg.style_sheet(within=within)}{_STYLE.replace('WITHIN', within)}{words}"


def document(title: str, pages: Sequence[LessonPage], notes: Sequence[str] = ()) -> str:
    """Lessons as an HTML page without anything from elsewhere. `notes` say what a reader must know first."""
    template = html.environment("aiperf_learn.pages").get_template("lesson.html.jinja")
    style = Markup(f":root {{ color-scheme: light dark; }}\n{html.colours()}{_PAGE}{style_sheet()}")
    made: Any = template.make_module(_SHARED)
    return str(made.document(title, style, notes, [(page.target, Markup(html_fragment(page))) for page in pages]))


def inline(text: str) -> Markup:
    """A text of a docstring, whose code spans are code."""
    pieces = re.split(r"`([^`]*)`", text)
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if place % 2 else Markup("{}").format(piece)
        for place, piece in enumerate(pieces)
    )


_SHARED: dict[str, Any] = {
    "inline": inline,
    "text": cell_text.text,
    "interval": cell_text.interval,
    "reason": cell_text.reason,
    "picture": picture.both,
    "claim_text": claim_text,
    "anchor": anchor,
    "changed": CHANGED,
}
