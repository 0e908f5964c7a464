"""The curves of a sweep as drawings: latency over the rate, and tokens a second for a user over those in all."""

from collections.abc import Callable, Iterable, Sequence

from aiperf_core import units
from aiperf_core.errors import AiperfError
from aiperf_core.report import result
from aiperf_core.report.result import Axis, Drawing, Series, counted
from aiperf_load.intervals import Figure
from aiperf_load.records import LoadResult, Point

TAILS = ("p99", "p95", "p90")


def drawings(load: LoadResult, name: str) -> list[Drawing]:
    """The two drawings of a load. Raises AiperfError where fewer than two points have a rate."""
    points = sorted((point for point in load.points if point.offered_per_s > 0), key=_rate)
    if len(points) < 2:
        raise AiperfError(f"a curve needs two points; this load has {len(points)}. Measure some: aiperf load sweep")
    return [_latency(points, load, name), _throughput(points)]


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
    return Drawing(
        name="latency",
        title=f"load on {name}: time to the first token",
        kind="lines",
        message=f"{count} from {_rate(points[0]):g} to {_rate(points[-1]):g} requests a second.",
        x=Axis(title="requests/s that arrive", unit="number", log=True),
        y=Axis(title="TTFT, less is better", unit="s", log=True),
        series=[
            _series(share, points, "s", _rate, (point.latencies["ttft_s"][share] for point in points))
            for share in ("p50", tail_of(points))
        ],
        borders={} if capacity is None else {f"capacity {capacity:.3g}/s": capacity},
    )


def _throughput(points: Sequence[Point]) -> Drawing:
    return Drawing(
        name="throughput",
        title="output tokens/s of a user",
        kind="lines",
        message="Tokens a second of a user over those of all users.",
        x=Axis(title="output tokens/s in all", unit="number"),
        y=Axis(title="tokens/s of a user, more is better", unit="number"),
        series=[
            _series(
                "loads",
                points,
                "number",
                lambda point: point.output_tokens_per_s,
                (point.user_tokens_per_s for point in points),
            )
        ],
    )


def _series(
    name: str, points: Sequence[Point], unit: str, place: Callable[[Point], float], figures: Iterable[Figure]
) -> Series:
    """A figure of the points over their places; points that are not trusted, or were overloaded, are marked."""
    return Series(
        name=name,
        points=[
            result.Point(
                label="",
                x=counted(place(point), "number"),
                y=result.Figure(value=figure.value, low=figure.low, high=figure.high, unit=unit, reason=figure.reason),
                mark="UNTRUSTED" if not point.trusted else "OVERLOAD" if point.state == "OVERLOAD" else "",
            )
            for point, figure in zip(points, figures, strict=True)
        ],
        joined=True,
    )
