"""The curves of a sweep as a picture: latency over the rate, and tokens a second for a user over those in all.

The two stand one above the other, so that a narrow screen shows them with readable letters.
"""

from collections.abc import Sequence

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.render import svg
from aiperf_load.intervals import Figure
from aiperf_load.records import LoadResult, Point

WIDTH, HEIGHT = 460.0, 620.0
LEFT, RIGHT = 62.0, 444.0
UPPER = (86.0, 290.0)  # top and bottom of the planes
LOWER = (376.0, 580.0)
TAILS = ("p99", "p95", "p90")
WRONG = "disbelieved"


def picture(result: LoadResult, name: str) -> svg.Picture:
    """The picture of a load. Raises AiperfError where fewer than two points have a rate."""
    points = sorted((one for one in result.points if one.offered_per_s > 0), key=_rate)
    if len(points) < 2:
        raise AiperfError(f"a curve needs two points; this load has {len(points)}. Measure some: aiperf load sweep")
    tail = tail_of(points)
    marks = [
        ("circle", "mark s0", "p50"),
        ("square", "mark s1", tail),
        ("diamond", f"mark {WRONG}", "untrusted, overload"),
    ]
    shapes: list[svg.Shape] = [
        svg.Text(16, 22, svg.shortened(f"load on {name}", WIDTH - 32, 15.0), "title"),
        svg.Text(16, 48, "time to the first token", "strong"),
        *svg.legend(marks, 180, RIGHT, 36)[0],
        *_latency(points, tail, result),
        svg.Text(16, LOWER[0] - 28, "output tokens/s of a user", "strong"),
        *_throughput(points),
    ]
    alt = f"{units.plural('load', len(points))} from {_rate(points[0]):g} to {_rate(points[-1]):g} requests a second."
    return svg.Picture(WIDTH, HEIGHT, f"load on {name}", alt, shapes)


def tail_of(points: Sequence[Point]) -> str:
    """The highest percentile that at least half of the points have; p99 where there is none."""
    for share in TAILS:
        if 2 * sum(one.latencies["ttft_s"][share].value is not None for one in points) >= len(points):
            return share
    return TAILS[0]


def _rate(one: Point) -> float:
    return one.spec.arrivals.rate_per_s or one.offered_per_s


def _latency(points: Sequence[Point], tail: str, result: LoadResult) -> list[svg.Shape]:
    top, bottom = UPPER
    series = {"s0 circle": [one.latencies["ttft_s"]["p50"] for one in points],
              "s1 square": [one.latencies["ttft_s"][tail] for one in points]}  # fmt: skip
    ends = [end for figures in series.values() for one in figures for end in (one.value, one.low, one.high) if end]
    if not ends:
        return [svg.Text(LEFT, (top + bottom) / 2, "no request ended well", "note")]
    x = svg.log_scale(_rate(points[0]) * 0.9, _rate(points[-1]) * 1.1, LEFT, RIGHT)
    y = svg.log_scale(min(ends) * 0.8, max(ends) * 1.25, bottom, top)
    shapes = svg.axis_below(x, top, bottom, [(tick, f"{tick:g}") for tick in x.ticks(7)], "requests/s that arrive")
    ticks = [(tick, units.seconds(tick, 1)) for tick in y.ticks(6)]
    shapes += svg.axis_left(y, x.left, x.right, ticks, "TTFT")
    rates = [x(_rate(one)) for one in points]
    for kind, figures in series.items():
        shapes += _series(kind, rates, figures, y, points)
    if result.knee is not None and result.knee.capacity_per_s.value is not None:
        shapes += _capacity(x, result.knee.capacity_per_s.value, top, bottom)
    return shapes


def _capacity(x: svg.Scale, value: float, top: float, bottom: float) -> list[svg.Shape]:
    """The line of the capacity, its name on the side with more room."""
    at, told = x(value), f"capacity {value:.3g}/s"
    left = at - x.left > x.right - at
    name = svg.Text(at - 5 if left else at + 5, top + 10, told, "note", "end" if left else "start")
    return [svg.line(at, top, at, bottom, "light", told), name]


def _throughput(points: Sequence[Point]) -> list[svg.Shape]:
    top, bottom = LOWER
    figures = [one.user_tokens_per_s for one in points]
    ends = [end for one in figures for end in (one.value, one.low, one.high) if end]
    if not ends:
        return [svg.Text(LEFT, (top + bottom) / 2, "answers of one token have no rate", "note")]
    served = [one.output_tokens_per_s for one in points]
    x = svg.Scale(0.0, max(served) * 1.05 or 1.0, LEFT, RIGHT)
    y = svg.Scale(0.0, max(ends) * 1.08, bottom, top)
    shapes = svg.axis_below(x, top, bottom, [(tick, f"{tick:,.0f}") for tick in x.ticks(6)], "output tokens/s in all")
    shapes += svg.axis_left(y, x.left, x.right, [(tick, f"{tick:,.4g}") for tick in y.ticks(6)], "tokens/s")
    return shapes + _series("s2 triangle", list(map(x, served)), figures, y, points)


def _series(
    kind: str, places: Sequence[float], figures: Sequence[Figure], y: svg.Scale, points: Sequence[Point]
) -> list[svg.Shape]:
    """A line through the points that have a value, their intervals, and a mark at each."""
    colour, form = kind.split()
    kept = [(x, one, point) for x, one, point in zip(places, figures, points, strict=True) if one.value is not None]
    shapes: list[svg.Shape] = []
    if len(kept) > 1:
        shapes.append(svg.Path([(x, y(one.value or 0.0)) for x, one, _ in kept], f"series {colour}"))
    for x, one, _ in kept:
        low, high = one.low if one.low is not None else one.value, one.high if one.high is not None else one.value
        shapes.append(svg.line(x, y(low or 0.0), x, y(high or 0.0), f"whisker {colour}"))
    for x, one, point in kept:
        wrong = not point.trusted or point.state == "OVERLOAD"
        title = f"{point.name}: {_rate(point):g} requests/s, {point.state}"
        kind = f"mark {WRONG if wrong else colour}"
        shapes.append(svg.mark(x, y(one.value or 0.0), 4, "diamond" if wrong else form, kind, title))
    return shapes
