"""A load as tables, pictures and sentences."""

from collections.abc import Sequence

from aiperf_calc.load_documents import Load, LoadFigure, Point
from aiperf_core import units
from aiperf_core.report.marks import FIT
from aiperf_core.report.result import Axis, Cell, Column, Drawing, Figure, Origin, Record, Series, Table, counted
from aiperf_core.report.result import Point as Drawn

COLUMNS = [
    Column("point", "point"),
    Column("rate", "rate", "figure"),
    Column("good", "good", "figure"),
    Column("goodput", "goodput", "figure"),
    Column("state", "state"),
    Column("trust", "trust"),
    Column("ttft_p50", "TTFT p50", "figure"),
    Column("ttft_p99", "TTFT p99", "figure"),
    Column("tpot_p50", "TPOT p50", "figure"),
    Column("e2e_p99", "E2E p99", "figure"),
    Column("tokens", "output tokens", "figure"),
    Column("requests", "requests", "figure"),
    Column("ok", "succeeded", "figure"),
    Column("late", "late p99", "figure"),
    Column("arrivals", "arrivals"),
]
FAILURES = [
    Column("point", "point"),
    Column("kind", "kind"),
    Column("requests", "requests", "figure"),
    Column("counted", "after the warm-up", "figure"),
]


def tables(load: Load, origin: Origin) -> list[Table]:
    """The points by rising rate, and the requests that did not end well."""
    points = _by_rate(load)
    failures = [
        Record({"point": one.name, "kind": kind, "requests": number,
                "counted": one.counted_outcomes.get(kind, 0)}, [origin])
        for one in points for kind, number in one.outcomes.items() if kind != "OK" and number
    ]  # fmt: skip
    found = [Table("points", "Points", COLUMNS, [Record(_cells(one), [origin]) for one in points])]
    if failures:
        found.append(Table("failures", "Requests that did not end well", FAILURES, failures))
    return found


def _by_rate(load: Load) -> list[Point]:
    return sorted(load.points, key=lambda one: (one.spec.arrivals.rate_per_s or 0.0, one.name))


def _accepted(load: Load) -> list[Point]:
    """The point of each rate: of repeats the last that is trusted, else the last."""
    found: dict[float | None, Point] = {}
    for one in _by_rate(load):
        before = found.get(_rate(one).value)
        if one.trusted or before is None or not before.trusted:
            found[_rate(one).value] = one
    return list(found.values())


def _limit(limit_s: float, low_per_s: float, high_per_s: float) -> Series:
    """The limit of the TTFT as a level line."""
    ends = [
        Drawn(label="", x=counted(end, "1/s"), y=counted(limit_s, "s"), mark=FIT) for end in (low_per_s, high_per_s)
    ]
    return Series(name=f"TTFT limit {units.seconds(limit_s)}", points=ends, joined=True)


def _rate(one: Point) -> Figure:
    rate = one.spec.arrivals.rate_per_s
    return counted(one.offered_per_s if rate is None else rate, "1/s")


def drawings(load: Load, origin: Origin) -> list[Drawing]:
    """Goodput and latencies over the offered rate, of a load at several rates. A rate has one mark."""
    points = _accepted(load)
    rates = [found.value for one in points if (found := _rate(one)).value is not None]
    if len(set(rates)) < 2:
        return []
    across = Axis(title="offered rate", unit="1/s")
    range_told = f"at {len(rates)} offered rates from {min(rates):.4g}/s to {max(rates):.4g}/s"
    limit_s = points[0].spec.limits.ttft_s
    capacity = load.knee.capacity_per_s.value if load.knee else None
    borders = {} if capacity is None else {f"capacity {capacity:.3g}/s": capacity}
    best = max(points, key=lambda one: one.goodput_per_s.value or 0.0)
    return [
        Drawing(
            name="goodput",
            title="Goodput over the offered rate",
            kind="lines",
            message=f"Goodput {range_told}; the largest is {best.goodput_per_s.value or 0.0:.4g}/s.",
            x=across,
            y=Axis(title="goodput (more is better)", unit="1/s"),
            series=[_series("goodput", [(one, _figure(one.goodput_per_s, "1/s")) for one in points], origin)],
            borders=borders,
        ),
        Drawing(
            name="latency",
            title="Latency over the offered rate",
            kind="lines",
            message=f"Latencies {range_told}.",
            x=across,
            y=Axis(title="latency (less is better)", unit="s", log=True),
            series=[
                _series(name, [(one, _figure(one.latencies[key][share], "s")) for one in points], origin)
                for name, key, share in (
                    ("TTFT p50", "ttft_s", "p50"), ("TTFT p99", "ttft_s", "p99"), ("E2E p99", "e2e_s", "p99"),
                )
            ] + ([] if limit_s is None else [_limit(limit_s, min(rates), max(rates))]),
            borders=borders,
        ),
    ]  # fmt: skip


def _series(name: str, points: Sequence[tuple[Point, Figure]], origin: Origin) -> Series:
    drawn = [
        Drawn(label="", x=_rate(one), y=figure, mark="" if one.trusted else "UNTRUSTED", origin=origin)
        for one, figure in points
    ]
    return Series(name=name, points=drawn, joined=True)


def _cells(one: Point) -> dict[str, Cell]:
    return {
        "point": one.name,
        "arrivals": one.spec.arrivals.kind,
        "rate": _rate(one),
        "requests": one.counted,
        "ok": one.counted_outcomes.get("OK", 0),
        "state": one.state,
        "trust": "trusted" if one.trusted else "UNTRUSTED",
        "ttft_p50": _figure(one.latencies["ttft_s"]["p50"], "s"),
        "ttft_p99": _figure(one.latencies["ttft_s"]["p99"], "s"),
        "tpot_p50": _figure(one.latencies["tpot_s"]["p50"], "s"),
        "e2e_p99": _figure(one.latencies["e2e_s"]["p99"], "s"),
        "goodput": _figure(one.goodput_per_s, "1/s"),
        "good": _figure(one.goodput_share, "%", 100.0),
        "tokens": counted(one.output_tokens_per_s, "1/s"),
        "late": counted(one.lateness_p99_s, "s", "a closed loop has no schedule, and a foreign result tells none"),
    }


def _figure(one: LoadFigure, unit: str, scale: float = 1.0) -> Figure:
    value, low, high = (None if end is None else end * scale for end in (one.value, one.low, one.high))
    if value is None:
        return Figure(value=None, unit=unit, reason=one.reason or "not told")
    return Figure(value=value, low=low, high=high, unit=unit, reason=one.reason)


def sentences(load: Load) -> Sequence[str]:
    """Remarks on a load. Points of which the same is true share a sentence, and are named by their rates."""
    found = [f"{units.plural('point', len(load.points))}, measured by {load.origin}."]
    if load.knee is not None and load.knee.capacity_per_s.value is not None:
        met = units.percent(load.knee.met)
        found.append(f"The capacity is {load.knee.capacity_per_s.value:.4g} requests/s, at {met} good requests.")
    if not load.complete:
        found.append("The load is not complete: it goes on, or was interrupted.")
    shared: dict[str, list[str]] = {}
    for one in _by_rate(load):
        rate = one.spec.arrivals.rate_per_s
        for reason in one.reasons:
            shared.setdefault(reason, []).append(f"{rate:g}/s" if rate else one.spec.arrivals.kind)
    return [*found, *(f"{', '.join(dict.fromkeys(names))}: {reason}." for reason, names in shared.items())]
