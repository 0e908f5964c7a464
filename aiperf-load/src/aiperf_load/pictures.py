"""The curves of a sweep as drawings: latency over the rate, and tokens a second for a user over those in all."""

from collections.abc import Callable, Iterable, Sequence

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.report import result
from aiperf_core.report.marks import FIT
from aiperf_core.report.result import Axis, Drawing, Series, counted
from aiperf_core.results.models import Verdict
from aiperf_load.intervals import Figure
from aiperf_load.records import LoadResult, Point

UNTRUSTED = Verdict.UNTRUSTED.value
OVERLOAD = "OVERLOAD"
TAILS = ("p99", "p95", "p90")


def drawings(load: LoadResult, name: str) -> list[Drawing]:
    """The two drawings of a load, each with a mark for a rate. Raises AiperfError for fewer than two rates."""
    points = accepted(load.points)
    if len(points) < 2:
        raise AiperfError(f"a curve needs two points; this load has {len(points)}. Measure some: aiperf load sweep")
    return [_latency(points, load, name), _throughput(points)]


def accepted(points: Iterable[Point]) -> list[Point]:
    """The point of each rate, by rising rate: of repeats the last that is trusted, else the last."""
    found: dict[float, Point] = {}
    for point in points:
        before = found.get(_rate(point))
        if point.offered_per_s > 0 and (point.trusted or before is None or not before.trusted):
            found[_rate(point)] = point
    return [found[rate] for rate in sorted(found)]


def tail_of(points: Sequence[Point]) -> str:
    """The highest percentile that at least half of the points have; p99 where there is none."""
    for share in TAILS:
        if 2 * sum(point.latencies["ttft_s"][share].value is not None for point in points) >= len(points):
            return share
    return TAILS[0]


def _rate(point: Point) -> float:
    return point.spec.arrivals.rate_per_s or point.offered_per_s


def _latency(points: Sequence[Point], load: LoadResult, name: str) -> Drawing:
    count = units.plural("load", len(points))
    capacity = load.knee.capacity_per_s.value if load.knee else None
    objective_s = points[0].spec.limits.ttft_s
    shares = ("p50", tail_of(points))
    return Drawing(
        name="latency",
        title=f"load on {name}: time to the first token",
        kind="lines",
        message=f"{count} from {_rate(points[0]):g} to {_rate(points[-1]):g} requests a second.",
        x=Axis(title="request rate, 1/s", unit="number", log=True),
        y=Axis(title=f"TTFT, {' and '.join(shares)}, less is better", unit="s", log=True),
        series=[
            *_courses(
                points, "s", _rate, {share: [one.latencies["ttft_s"][share] for one in points] for share in shares}
            ),
            *([] if objective_s is None else [_limit(objective_s, _rate(points[0]), _rate(points[-1]))]),
        ],
        borders={} if capacity is None else {f"capacity {capacity:.3g}/s": capacity},
    )


def _throughput(points: Sequence[Point]) -> Drawing:
    return Drawing(
        name="throughput",
        title="output tokens/s of a user" + ("" if any(point.trusted for point in points) else ", UNTRUSTED"),
        kind="lines",
        message="Tokens a second of a user over those of all users.",
        x=Axis(title="output tokens/s in all", unit="number"),
        y=Axis(title="tokens/s of a user, more is better", unit="number"),
        series=_courses(
            points,
            "number",
            lambda point: point.output_tokens_per_s,
            {"loads": [point.user_tokens_per_s for point in points]},
            apart=(UNTRUSTED, OVERLOAD),  # beyond the capacity, more requests give no more tokens in all
        ),
    )


def _courses(
    points: Sequence[Point],
    unit: str,
    place: Callable[[Point], float],
    figures: dict[str, list[Figure]],
    apart: Sequence[str] = (UNTRUSTED,),
) -> list[Series]:
    """Figures of the points over their places: a line for each, and points with the marks `apart` as marks alone."""
    lines: dict[str, list[result.Point]] = {name: [] for name in figures}
    single: dict[str, list[result.Point]] = {mark: [] for mark in apart}
    for name, column in figures.items():
        for point, figure in zip(points, column, strict=True):
            mark = UNTRUSTED if not point.trusted else OVERLOAD if point.state == OVERLOAD else ""
            drawn = result.Point(
                label="",
                x=counted(place(point), "number"),
                y=result.Figure(value=figure.value, low=figure.low, high=figure.high, unit=unit, reason=figure.reason),
                mark=mark,
            )
            single.get(mark, lines[name]).append(drawn)
    joined = [Series(name=name, points=line, joined=True) for name, line in lines.items() if line]
    return [*joined, *(Series(name=mark, points=some) for mark, some in single.items() if some)]


def _limit(objective_s: float, low_per_s: float, high_per_s: float) -> Series:
    """The limit of the TTFT as a level line."""
    ends = [
        result.Point(label="", x=counted(rate, "number"), y=counted(objective_s, "s"), mark=FIT)
        for rate in (low_per_s, high_per_s)
    ]
    return Series(name=f"limit {units.seconds(objective_s)}", points=ends, joined=True)
