"""The ladder of a target: the stored figure of each implementation on one scale, the baseline at 1, as a forest."""

from collections.abc import Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.render import forest, marks
from aiperf_core.render.layout import EDGE
from aiperf_core.render.svg import Picture, Scale, log_scale, shortened

WIDE = 360.0  # readable on a telephone without a second layout
TICKS = 5
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
    best = _best(rungs)
    colours = marks.colours((rung.name, rung.role) for rung in rungs)
    each = ", ".join(f"{rung.name} {_words(rung)}" for rung in rungs)
    frame = forest.Frame(
        title=title,
        message=f"{metric} relative to the baseline: {each}",
        axis=_axis(rungs, metric),
        scale=lambda left, right: _scale(measured, left, right),
        ticks=lambda scale, _: [(tick, f"{tick:g}x") for tick in forest.ratio_ticks(scale, TICKS)],
        reference=1.0,
        wide=WIDE,
        stems=True,
        kind="figure ladder",
    )
    return forest.draw([_line(rung, rung is best, colours[rung.name]) for rung in rungs], frame)


def _scale(measured: Sequence[Estimate], left: float, right: float) -> Scale:
    low, high = min(one.low for one in measured), max(one.high for one in measured)
    return log_scale(min(low / 1.1, 0.9), max(high * 1.1, 1.2), left, right)


def _best(rungs: Sequence[Rung]) -> Rung | None:
    """The variant with the largest figure above 1."""
    above = [(rung.ratio.value, rung) for rung in rungs if rung.role == "variant" and rung.ratio and rung.ratio.low > 1]
    return max(above, key=lambda found: found[0])[1] if above else None


def _axis(rungs: Sequence[Rung], metric: str) -> str:
    base = next((rung.name for rung in rungs if rung.role == "baseline"), "the baseline")
    figure = "speedup over" if metric == "speedup" else "peak memory divided into that of"
    return shortened(f"{figure} {base}, logarithmic", WIDE - 2 * EDGE)


def _line(rung: Rung, is_best: bool, colour: str) -> forest.Line:
    form, looks = marks.form_of("best" if is_best else rung.role)
    ratio = rung.ratio
    has_interval = ratio is not None and ratio.low < ratio.high
    return forest.Line(
        name=rung.name,
        value=ratio.value if ratio else None,
        low=ratio.low if ratio and has_interval else None,
        high=ratio.high if ratio and has_interval else None,
        told=(_words(rung), ""),
        reason=_words(rung),
        look=(form, f"{looks} {colour}"),
        strong=is_best,
    )


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
