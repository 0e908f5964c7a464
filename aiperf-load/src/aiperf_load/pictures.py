"""The curves of a sweep as a picture: latency over the rate, and tokens a second for a user over those in all."""

from collections.abc import Sequence

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.render import svg
from aiperf_load.intervals import Figure
from aiperf_load.records import LoadResult, Point

WIDTH, HEIGHT = 860.0, 360.0
TOP, BOTTOM = 74.0, 312.0
LEFT, MIDDLE, RIGHT = 62.0, 430.0, 846.0
GAP = 76.0


def picture(result: LoadResult, name: str) -> svg.Picture:
    """The picture of a load. Raises AiperfError where fewer than two points have a rate."""
    points = sorted((one for one in result.points if one.offered_per_s > 0), key=_rate)
    if len(points) < 2:
        raise AiperfError(f"a curve needs two points; this load has {len(points)}. Measure some: aiperf load sweep")
    shapes: list[svg.Shape] = [
        svg.Text(LEFT - 46, 22, f"load on {name}", "title"),
        *_latency(points, result),
        *_throughput(points),
    ]
    marks = [("circle", "s0", "p50"), ("square", "s1", "p99"), ("triangle", "s2", "of a user")]
    shapes += svg.legend([*marks, ("diamond", "bad", "not trusted, or overload")], LEFT, RIGHT, 30)[0]
    alt = f"{len(points)} loads from {_rate(points[0]):g} to {_rate(points[-1]):g} requests a second."
    return svg.Picture(WIDTH, HEIGHT, f"load on {name}", alt, shapes)


def _rate(one: Point) -> float:
    return one.spec.arrivals.rate_per_s or one.offered_per_s


def _latency(points: Sequence[Point], result: LoadResult) -> list[svg.Shape]:
    series = {"s0 circle": [one.latencies["ttft_s"]["p50"] for one in points],
              "s1 square": [one.latencies["ttft_s"]["p99"] for one in points]}  # fmt: skip
    ends = [end for figures in series.values() for one in figures for end in (one.value, one.low, one.high) if end]
    if not ends:
        return [svg.Text(LEFT, (TOP + BOTTOM) / 2, "no request ended well", "note")]
    x = svg.log_scale(_rate(points[0]) * 0.9, _rate(points[-1]) * 1.1, LEFT, MIDDLE - GAP / 2)
    y = svg.log_scale(min(ends) * 0.8, max(ends) * 1.25, BOTTOM, TOP)
    shapes = svg.axis_below(x, TOP, BOTTOM, [(tick, f"{tick:g}") for tick in x.ticks(7)], "requests/s that arrive")
    ticks = [(tick, units.seconds(tick, 1)) for tick in y.ticks(6)]
    shapes += svg.axis_left(y, x.left, x.right, ticks, "TTFT")
    if result.knee is not None and result.knee.capacity_per_s.value is not None:
        at = x(result.knee.capacity_per_s.value)
        title = f"capacity {result.knee.capacity_per_s.value:.4g} requests/s"
        shapes += [svg.line(at, TOP, at, BOTTOM, "light", title), svg.Text(at - 4, TOP + 10, "capacity", "note", "end")]
    rates = [x(_rate(one)) for one in points]
    for kind, figures in series.items():
        shapes += _series(kind, rates, figures, y, points)
    return shapes


def _throughput(points: Sequence[Point]) -> list[svg.Shape]:
    figures = [one.user_tokens_per_s for one in points]
    ends = [end for one in figures for end in (one.value, one.low, one.high) if end]
    if not ends:
        return [svg.Text(MIDDLE + GAP, (TOP + BOTTOM) / 2, "answers of one token have no rate", "note")]
    served = [one.output_tokens_per_s for one in points]
    x = svg.Scale(0.0, max(served) * 1.05 or 1.0, MIDDLE + GAP, RIGHT - 10)
    y = svg.Scale(0.0, max(ends) * 1.08, BOTTOM, TOP)
    shapes = svg.axis_below(x, TOP, BOTTOM, [(tick, f"{tick:,.0f}") for tick in x.ticks(6)], "output tokens/s in all")
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
    for x, one, point in kept:
        low, high = one.low if one.low is not None else one.value, one.high if one.high is not None else one.value
        shapes.append(svg.line(x, y(low or 0.0), x, y(high or 0.0), f"whisker {colour}"))
        wrong = not point.trusted or point.state == "OVERLOAD"
        title = f"{point.name}: {_rate(point):g} requests/s, {point.state}"
        shapes.append(
            svg.mark(
                x, y(one.value or 0.0), 4, "diamond" if wrong else form, f"mark {'bad' if wrong else colour}", title
            )
        )
    return shapes
