"""Shapes of pictures, and their SVG: scales, axes, marks, legends, style sheets.

Coordinates are pixels; y counts downwards. A shape has classes instead of colours (`kind`, separated by blanks). The
style sheet gives each class its colour, which follows the colour scheme of the page.
"""

import math
from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen
from markupsafe import Markup, escape

from aiperf_core.names import words
from aiperf_core.report.links import local
from aiperf_core.report.ticks import linear, logarithmic

# Figures of a bundle may have any size; values beyond these limits stand at the end of their axis.
SMALLEST, LARGEST = 1e-150, 1e150
MOST_LETTERS, MOST_OF_ALT = 300, 5000  # of a title; of the text that says what a picture shows

# Colours that tell series apart, most of Okabe and Ito for any kind of colour vision; the darker colours first.
_SERIES = ("#0072b2", "#d55e00", "#009e73", "#8f5b9e", "#b8860b", "#56b4e9", "#cc79a7", "#882255", "#7f9a00", "#4d4d4d")
SERIES = tuple(f"s{index}" for index in range(len(_SERIES)))
# The light scheme. A page declares these names as CSS custom properties, and may redefine them for a dark scheme.
PALETTE: Mapping[str, str] = {
    "page": "#ffffff",
    "ink": "#1a2129",
    "quiet": "#57626e",
    "line": "#d9dee4",
    "faint": "#eceff2",
    "accent": "#0a63b8",
    "good": "#0b7038",
    "warn": "#8a5700",
    "bad": "#b3241b",
    **dict(zip(SERIES, _SERIES, strict=True)),
}
# The colours of the dark scheme that differ. A page that follows the reader's scheme declares them too.
DARK: Mapping[str, str] = {
    "page": "#14181d",
    "ink": "#e4e8ec",
    "quiet": "#a0abb6",
    "line": "#37414b",
    "faint": "#262d35",
    "accent": "#6cb2f5",
    "good": "#5fca8c",
    "warn": "#e3b25a",
    "bad": "#ff8a80",
    "s0": "#3f8fd9",
    "s3": "#a58be6",
    "s5": "#9bd8f7",
    "s7": "#d9436b",
    "s9": "#a8a8a8",
}
FONT = 'system-ui, -apple-system, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif'
# CSS rules, from general to special. A value that PALETTE names is that colour; `own` is the colour of the class.
_ELEMENTS: Mapping[str, Mapping[str, str]] = {
    "path": {"stroke": "own", "fill": "none", "stroke-width": "1", "stroke-linejoin": "round"},
    "circle": {"stroke": "none", "fill": "own"},
    "text": {"fill": "ink", "font-size": "11px"},
}
# The classes that give a shape its own colour.
_OWNERS: Mapping[str, str] = {
    "quiet": "baseline v-SAME v-MEASURED",
    "good": "v-FASTER v-SMALLER v-IMPROVED v-MET v-FITS",
    "warn": "v-SLOWER v-LARGER v-INCONCLUSIVE v-SUSPECT v-UNCLEAR v-MAYBE",
    "bad": "disbelieved held v-REGRESSION v-MISSED v-FAILS",
    **{name: name for name in SERIES},
}
_COLOURS = {name: colour for colour, names in _OWNERS.items() for name in names.split()}
_CLASSES: Mapping[str, Mapping[str, str]] = {
    "tick": {"fill": "quiet"},
    "note": {"fill": "quiet"},
    "label": {"fill": "quiet"},
    "strong": {"fill": "ink", "font-weight": "700"},
    "title": {"font-size": "15px", "font-weight": "700"},
    "paper": {"fill": "page"},
    "grid": {"stroke": "faint"},
    "leader": {"stroke": "line"},
    "divider": {"stroke": "line", "stroke-dasharray": "2 3"},
    "one": {"stroke": "quiet"},
    "light": {"stroke": "warn", "stroke-width": "1.2", "stroke-dasharray": "4 3"},
    "roof": {"stroke": "ink", "stroke-width": "1.6"},
    "second": {"stroke": "quiet", "stroke-width": "1", "stroke-dasharray": "4 3"},
    "whisker": {"stroke-width": "1.2", "stroke-linecap": "round"},
    "median": {"stroke-width": "1.6"},
    "cut": {"stroke": "none", "fill": "own"},
    "range": {"stroke-width": "4", "stroke-linecap": "round", "opacity": ".5"},
    "ridge": {"fill": "own", "fill-opacity": ".3"},
    "area": {"fill": "accent", "stroke": "none", "fill-opacity": "0"},
    "floor": {"fill": "faint", "stroke": "none"},
    "course": {"stroke-width": "1.5"},
    "front": {"stroke-width": "1.5", "opacity": ".6"},
    "mark": {"stroke": "page", "stroke-width": "1", "fill": "own"},
    "hollow": {"stroke": "own", "stroke-width": "1.5", "fill": "page"},
    "open": {"stroke": "own", "stroke-width": "1.5", "fill": "none"},
}
# Keeps lines from striking through words. Not for WeasyPrint: without `paint-order`, it would cover the words.
_HALO: Mapping[str, str] = {
    "stroke": "page",
    "stroke-width": "3px",
    "stroke-linejoin": "round",
    "paint-order": "stroke",
}


@frozen
class Dot:
    """A circle. `title` is shown when a reader points at it; `href` is where it leads."""

    x: float
    y: float
    radius: float
    kind: str
    title: str = field(default="", converter=words)
    href: str = field(default="", converter=local)


@frozen
class Path:
    """Lines through points; `closed` makes it an area."""

    points: Sequence[tuple[float, float]]
    kind: str
    closed: bool = False
    title: str = field(default="", converter=words)
    href: str = field(default="", converter=local)


@frozen
class Text:
    """A label at its baseline. `anchor` is `start`, `middle` or `end`; `turned` is in degrees, counter-clockwise."""

    x: float
    y: float
    content: str = field(converter=words)
    kind: str = "t"
    anchor: str = "start"
    turned: float = 0.0
    title: str = field(default="", converter=words)


Shape = Dot | Path | Text


@frozen
class Picture:
    """A whole picture, in pixels.

    title: what the picture shows.
    alt: what a reader should see in it, for readers who do not see it.
    kind: its class.
    """

    width: float
    height: float
    title: str = field(converter=words)
    alt: str = field(converter=words)
    shapes: Sequence[Shape]
    kind: str = "figure"


# --- scales


@frozen
class Scale:
    """From values to places on an axis, `left` to `right`. An upright axis goes from its bottom to its top."""

    low: float
    high: float
    left: float
    right: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; a value beyond an end is at that end."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.left + (at - low) / (high - low) * (self.right - self.left)

    def ticks(self, most: int) -> list[float]:
        """Round values within the scale, at most `most` of them where that is possible."""
        return (logarithmic if self.log else linear)(self.low, self.high, most)


def log_scale(low: float, high: float, left: float, right: float) -> Scale:
    """A logarithmic scale, whatever the figures are."""
    low = min(max(low, SMALLEST), LARGEST / 10)
    return Scale(low, min(max(high, low * 1.01), LARGEST), left, right, log=True)


# --- parts of a picture


def grid(scale: Scale, top: float, bottom: float, ticks: Sequence[tuple[float, str]]) -> list[Shape]:
    """The grid lines of a horizontal axis."""
    return [line(scale(value), top, scale(value), bottom, "grid") for value, _ in ticks]


def tick_labels(scale: Scale, y: float, ticks: Sequence[tuple[float, str]]) -> list[Shape]:
    """The labels of a horizontal axis at this height, where a label covers no other."""
    shapes: list[Shape] = []
    free = -math.inf
    for value, label in ticks:
        x, width = scale(value), text_width(label)
        anchor = "start" if x - width / 2 < scale.left - 8 else "end" if x + width / 2 > scale.right + 8 else "middle"
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        if left >= free:
            shapes.append(Text(x, y, label, "tick", anchor))
            free = left + width + 6
    return shapes


def axis_below(scale: Scale, top: float, bottom: float, ticks: Sequence[tuple[float, str]]) -> list[Shape]:
    """A horizontal axis: grid lines, and labels below them."""
    return [*grid(scale, top, bottom, ticks), *tick_labels(scale, bottom + 14, ticks)]


def axis_left(scale: Scale, left: float, right: float, ticks: Sequence[tuple[float, str]]) -> list[Shape]:
    """An upright axis: grid lines, and a label at the left of each."""
    shapes: list[Shape] = []
    for value, label in ticks:
        y = scale(value)
        shapes += [line(left, y, right, y, "grid"), Text(left - 6, y + 4, label, "tick", "end")]
    return shapes


def lowered(shape: Shape, by: float) -> Shape:
    """The shape further down, as of a picture below another."""
    if isinstance(shape, Path):
        return evolve(shape, points=[(x, y + by) for x, y in shape.points])
    return evolve(shape, y=shape.y + by)


def line(x1: float, y1: float, x2: float, y2: float, kind: str, title: str = "") -> Path:
    """A straight line."""
    return Path([(x1, y1), (x2, y2)], kind, title=title)


def mark(x: float, y: float, radius: float, form: str, kind: str, title: str = "", href: str = "") -> Shape:
    """A mark: a `circle`, `diamond`, `triangle`, `down` (a triangle on its tip), `square`, `cross` or `line`."""
    if form == "circle":
        return Dot(x, y, radius, kind, title, href)
    corners = {
        "diamond": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
        "triangle": ((0, -1.2), (1.15, 0.9), (-1.15, 0.9)),
        "down": ((0, 1.2), (1.15, -0.9), (-1.15, -0.9)),
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "line": ((-1.5, -0.3), (1.5, -0.3), (1.5, 0.3), (-1.5, 0.3)),
        "cross": ((-1.1, -1.1), (0, -0.4), (1.1, -1.1), (0.4, 0), (1.1, 1.1), (0, 0.4), (-1.1, 1.1), (-0.4, 0)),
    }[form]
    return Path([(x + dx * radius, y + dy * radius) for dx, dy in corners], kind, closed=True, title=title, href=href)


def legend(entries: Sequence[tuple[str, str, str]], left: float, right: float, top: float) -> tuple[list[Shape], float]:
    """Marks with their names in rows, from form, kind and name of each; and the bottom of the last row."""
    shapes: list[Shape] = []
    x, y = left, top
    for form, kind, name in entries:
        name = shortened(name, right - left - 16)
        width = 16 + text_width(name) + 18
        if x > left and x + width - 18 > right:
            x, y = left, y + 17
        shapes += [mark(x + 5, y + 8, 4, form, kind), Text(x + 16, y + 12, name, "label")]
        x += width
    return shapes, y + 17


def text_width(text: str, size: float = 11.0) -> float:
    """The width of a text, nearly: in DejaVu Sans, the widest of the fonts that a reader may have."""
    narrow = sum(character in "iljftrI.,:;|!'()[] /" for character in text)
    wide = sum(character in "mwMW@%" for character in text)
    return size * (0.63 * len(text) - 0.28 * narrow + 0.3 * wide)


def shortened(name: str, width: float, size: float = 11.0, *, keeps_end: bool = False) -> str:
    """A name that fits into a width.

    Its end is left out where it must be, or its middle where the ends of names tell them apart.
    """
    # The narrowest letter takes 0.35 of the size: more letters than these never fit.
    most = 4 * int(width / size) + 64
    name = words(f"{name[:most]}{name[-most:]}" if keeps_end and len(name) > 2 * most else name[:most])
    if text_width(name, size) <= width:
        return name
    letters = min(len(name), int(width / (0.35 * size)) + 1)
    while letters > 3 and text_width(_without_middle(name, letters, keeps_end), size) > width:
        letters -= 1
    return _without_middle(name, letters, keeps_end)


def _without_middle(name: str, letters: int, keeps_end: bool) -> str:
    """Shorten a name: keep its first letters, or one third of them from its start and two thirds from its end."""
    last = letters - letters // 3 if keeps_end else 0
    return f"{name[: letters - last]}…{name[len(name) - last :]}"


# --- SVG


def markup(picture: Picture) -> Markup:
    """The picture as an element of a page that has the style sheet."""
    return _svg(picture, Markup('class="{}"').format(picture.kind))


def document(picture: Picture) -> str:
    """The picture as a file of its own: with its size, its style sheet for both colour schemes, and a background."""
    size = Markup('width="{}" height="{}"').format(number(picture.width), number(picture.height))
    light, dark = (_sheet(_of(palette), halo=True) for palette in (PALETTE, {**PALETTE, **DARK}))
    sheet = Markup(f"<style>{light}@media (prefers-color-scheme: dark) {{\n{dark}}}</style>")
    paper = Markup('<rect class="paper" width="100%" height="100%"/>')
    return f"{_svg(picture, size, sheet + paper)}\n"


def _svg(picture: Picture, attributes: Markup, before: Markup | str = "") -> Markup:
    # The parts of an image are hidden from assistive programs, and so would be its links.
    has_links = any(not isinstance(shape, Text) and shape.href for shape in picture.shapes)
    return Markup(
        '<svg {} viewBox="0 0 {} {}" role="{}" xmlns="http://www.w3.org/2000/svg">'
        "<title>{}</title><desc>{}</desc>{}{}</svg>"
    ).format(
        attributes,
        number(picture.width),
        number(picture.height),
        "group" if has_links else "img",
        brief(picture.title),
        brief(picture.alt, MOST_OF_ALT),
        before,
        Markup("".join(map(_drawn, picture.shapes))),
    )


def _drawn(shape: Shape) -> str:
    """The shape as markup, without a template: a picture may have thousands."""
    kind = escape(shape.kind)
    match shape:
        case Dot():
            drawn = f'<circle class="{kind}" cx="{number(shape.x)}" cy="{number(shape.y)}" r="{number(shape.radius)}"/>'
        case Path():
            steps = " ".join(f"{number(x)} {number(y)}" for x, y in shape.points)
            drawn = f'<path class="{kind}" d="M{steps}{"Z" if shape.closed else ""}"/>'
        case Text():
            x, y = number(shape.x), number(shape.y)
            where = f'x="{x}" y="{y}"'
            if shape.turned:
                where += f' transform="rotate({number(-shape.turned)} {x} {y})"'
            if shape.anchor != "start":
                where += f' text-anchor="{escape(shape.anchor)}"'
            drawn = f'<text class="{kind}" {where}>{escape(shape.content)}</text>'
    title = escape(brief(shape.title))
    if title:
        drawn = f"<g><title>{title}</title>{drawn}</g>"
    if not isinstance(shape, Text) and shape.href:
        # By keyboard a reader follows the same links in the table of the picture.
        href = escape(shape.href)
        drawn = f'<a href="{href}" tabindex="-1" aria-label="{title or href}">{drawn}</a>'
    return drawn


def brief(text: str, most: int = MOST_LETTERS) -> str:
    """A text that a reader can read to its end: names come from bundles, and one may have any length."""
    return text if len(text) <= most else f"{text[:most]}…"


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


# --- style


def style_sheet(*, plain: bool = False, within: str = "") -> str:
    """The style sheet of pictures.

    plain: without custom properties, for programs that do not know them; in the light scheme.
    within: the selector of the elements that hold the pictures, on a page that has pictures of others.
    """
    palette = PALETTE if plain else {name: f"var(--{name}, {colour})" for name, colour in PALETTE.items()}
    return _sheet(_of(palette), within=within)


def _of(palette: Mapping[str, str]) -> Mapping[str, str]:
    """The colours of a palette by their names, and `own` for the colour of the class."""
    return {**palette, "own": "currentColor"}


def _sheet(colours: Mapping[str, str], *, within: str = "", halo: bool = False) -> str:
    text = {"font-family": FONT, **_ELEMENTS["text"], **(_HALO if halo else {})}
    # A class of a shape must not touch an element of the page, such as a row of the same class.
    rules: dict[str, Mapping[str, str]] = {**_ELEMENTS, "text": text}
    rules |= {f"svg .{name}": {"color": colour} for name, colour in _COLOURS.items()}
    rules |= {f"svg .{name}": properties for name, properties in _CLASSES.items()}
    lines = {
        name: "; ".join(f"{key}: {colours.get(of, of)}" for key, of in rule.items()) for name, rule in rules.items()
    }
    return "".join(f"{within} {name} {{ {line} }}\n".lstrip() for name, line in lines.items())


def declared(palette: Mapping[str, str]) -> str:
    """A palette as declarations of CSS custom properties."""
    return "; ".join(f"--{name}: {colour}" for name, colour in palette.items())
