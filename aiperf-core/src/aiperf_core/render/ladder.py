"""The ladder of a target: the stored figure of each implementation on one scale, the baseline at 1."""

from collections.abc import Sequence

from attrs import evolve, frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.render import marks
from aiperf_core.render.svg import Path, Picture, Scale, Shape, Text, axis_below, line, log_scale, mark, shortened
from aiperf_core.render.svg import text_width as width_of

WIDE = 360.0  # readable on a telephone without a second layout
EDGE = 8.0
LANE = 34.0  # height of a rung
NAME, BAR = 15.0, 26.0  # of the text and of the mark, below the top of a rung
TITLE = 22.0  # height of the title
AXIS = 32.0
STEEP = 4.0  # ratio of the ends of a scale, below which powers give fewer than two ticks
NO_FIGURE = "no stored figure"


@frozen(kw_only=True)
class Rung:
    """An implementation in a ladder.

    ratio: the speedup, or the baseline's peak memory divided by the implementation's; None without a stored figure.
    sol: the fraction of the speed of light.
    """

    name: str
    role: str
    ratio: Estimate | None = None
    sol: float | None = None


def draw(rungs: Sequence[Rung], metric: str, title: str) -> Picture:
    """The picture of a ladder under its title, in the order of the rungs. `metric` is `speedup` or `memory`."""
    measured = [rung.ratio for rung in rungs if rung.ratio]
    scale = _scale(measured)
    best = _best(rungs)
    bottom = TITLE + LANE * len(rungs) + 6
    ticks = [(tick, f"{tick:g}x") for tick in _ticks(scale)]
    shapes: list[Shape] = axis_below(scale, TITLE, bottom, ticks, _axis(rungs, metric))
    shapes.append(line(scale(1), TITLE, scale(1), bottom, "one"))
    shapes.append(Text(EDGE, 14, shortened(title, WIDE - 2 * EDGE), "strong"))
    colours = marks.colours((rung.name, rung.role) for rung in rungs)
    for index, rung in enumerate(rungs):
        kind = "best" if rung is best else rung.role
        shapes += _rung(rung, TITLE + LANE * index, scale, kind, colours[rung.name])
    each = ", ".join(f"{rung.name} {_words(rung)}" for rung in rungs)
    alt = f"{metric} relative to the baseline: {each}"
    return Picture(WIDE, bottom + AXIS, title, alt, shapes, "figure ladder")


def _scale(measured: Sequence[Estimate]) -> Scale:
    low, high = min(one.low for one in measured), max(one.high for one in measured)
    return log_scale(min(low / 1.1, 0.9), max(high * 1.1, 1.2), EDGE, WIDE - EDGE)


def _ticks(scale: Scale) -> list[float]:
    """Round values: powers and their parts, or equal steps where the scale is too short for these."""
    return (evolve(scale, log=False) if scale.high < STEEP * scale.low else scale).ticks(5)


def _best(rungs: Sequence[Rung]) -> Rung | None:
    """The variant with the largest figure above 1."""
    above = [(rung.ratio.value, rung) for rung in rungs if rung.role == "variant" and rung.ratio and rung.ratio.low > 1]
    return max(above, key=lambda found: found[0])[1] if above else None


def _axis(rungs: Sequence[Rung], metric: str) -> str:
    base = next((rung.name for rung in rungs if rung.role == "baseline"), "the baseline")
    figure = "speedup over" if metric == "speedup" else "peak memory divided into that of"
    return shortened(f"{figure} {base}, logarithmic", WIDE - 2 * EDGE, 10)


def _rung(rung: Rung, top: float, scale: Scale, kind: str, colour: str) -> list[Shape]:
    shown = _words(rung)
    name = shortened(rung.name, WIDE - 3 * EDGE - width_of(shown))
    shapes: list[Shape] = [
        Text(EDGE, top + NAME, name, "strong" if kind == "best" else "name"),
        Text(WIDE - EDGE, top + NAME, shown, "label", "end"),
    ]
    if rung.ratio is None:
        return shapes
    y = top + BAR
    shapes.append(line(scale(1), y, scale(rung.ratio.value), y, "stem"))
    if rung.ratio.low < rung.ratio.high:
        shapes.append(Path([(scale(rung.ratio.low), y), (scale(rung.ratio.high), y)], f"range {colour}"))
    form, looks = marks.form_of(kind)
    interval = units.ratio_estimate(rung.ratio)
    title = rung.name if rung.role == "baseline" else f"{rung.name}: {interval.value} {interval.interval}"
    return [*shapes, mark(scale(rung.ratio.value), y, 4, form, f"{looks} {colour}", title)]


def _words(rung: Rung) -> str:
    """The figures of a rung in words: `10.2x [10.1, 10.3], SOL 94 %`."""
    if rung.role == "baseline":
        return "baseline" if rung.sol is None else f"baseline, SOL {units.percent(rung.sol)}"
    role = "yardstick, " if rung.role == "yardstick" else ""
    if rung.ratio is None:
        return f"{role}{NO_FIGURE}"
    shown = units.ratio_estimate(rung.ratio)
    interval = f" {shown.interval}" if rung.ratio.low < rung.ratio.high else ""
    return f"{role}{shown.value}{interval}" + ("" if rung.sol is None else f", SOL {units.percent(rung.sol)}")
