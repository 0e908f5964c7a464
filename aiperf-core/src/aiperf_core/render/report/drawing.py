"""SVG by hand: what the pictures of a report share. Small, the same bytes from the same figures, and drawn by the page itself.

Colours and weights stand in the page's style sheet, by class, so that they follow the scheme in which it is read.
"""

import math
from collections.abc import Iterable, Sequence

import attrs
from markupsafe import Markup, escape

from aiperf_core.names import words

LETTER = 6.1  # usual width of one at the size of a label
STEPS = (1, 2, 5)
# Figures of a bundle may be of any size; those beyond stand at the end of their axis.
SMALLEST, LARGEST = 1e-150, 1e150


@attrs.frozen
class Scale:
    """From values to places on an axis, `left` to `right`."""

    low: float
    high: float
    left: float
    right: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; one beyond an end is at that end."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.left + (at - low) / (high - low) * (self.right - self.left)

    def ticks(self, most: int) -> list[float]:
        """Round values within the scale, not more than `most` of them where that is possible."""
        return _log_ticks(self.low, self.high, most) if self.log else _ticks(self.low, self.high, most)


def log_scale(low: float, high: float, left: float, right: float) -> Scale:
    """A logarithmic scale, whatever the figures are."""
    low = min(max(low, SMALLEST), LARGEST / 10)
    return Scale(low, min(max(high, low * 1.01), LARGEST), left, right, log=True)


def _ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((one * power for one in (*STEPS, 10) if one * power >= rough * 0.999), 10 * power)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (STEPS, (1, 3), (1,)):
        found = [step * 10.0**power for power in decades for step in steps]
        found = [one for one in found if low * 0.999 <= one <= high * 1.001]
        if 2 <= len(found) <= most:
            return found
    every = max(1, math.ceil(len(decades) / most))
    found = [10.0**power for power in decades[::every]]
    return [one for one in found if low * 0.999 <= one <= high * 1.001] or [low]


def picture(width: float, height: float, alt: str, parts: Iterable[Markup], kind: str = "figure") -> Markup:
    """A whole picture, with the text that stands for it where it is not seen."""
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}" xmlns="http://www.w3.org/2000/svg">{}</svg>'
    ).format(kind, number(width), number(height), words(alt), Markup("").join(parts))


def text(x: float, y: float, content: str, kind: str = "t", anchor: str = "start", turned: float = 0.0) -> Markup:
    """A label, turned by so many degrees against the clock. Its words are somebody else's."""
    place = Markup('x="{}" y="{}"').format(number(x), number(y))
    if turned:
        place += Markup(' transform="rotate({} {} {})"').format(number(-turned), number(x), number(y))
    if anchor != "start":
        place += Markup(' text-anchor="{}"').format(anchor)
    return Markup('<text class="{}" {}>{}</text>').format(kind, place, words(content))


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line."""
    ends = tuple(map(number, (x1, y1, x2, y2)))
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, *ends)


def dot(x: float, y: float, radius: float, kind: str) -> Markup:
    """A filled circle."""
    return Markup('<circle class="{}" cx="{}" cy="{}" r="{}"/>').format(kind, number(x), number(y), number(radius))


def path(points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> Markup:
    """Lines through points."""
    steps = " ".join(f"{number(x)} {number(y)}" for x, y in points)
    return Markup('<path class="{}" d="M{}{}"/>').format(kind, steps, "Z" if closed else "")


def titled(content: Markup, title: str) -> Markup:
    """Something that says what it is when pointed at."""
    return Markup("<g><title>{}</title>{}</g>").format(escape(words(title)), content)


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def shortened(name: str, width: float) -> str:
    """A name that fits into a width, its end left out where it must be."""
    most = max(4, int(width / LETTER))
    name = words(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"
