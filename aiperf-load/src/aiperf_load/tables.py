"""A load as tables and notes: rows of texts, and lines."""

from collections.abc import Iterator, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.names import words
from aiperf_load.intervals import Figure
from aiperf_load.outcomes import MEANINGS, Kind
from aiperf_load.records import LoadResult, Point

NONE = "-"
LATENCIES = {"ttft_s": "TTFT", "itl_s": "ITL", "tpot_s": "TPOT", "e2e_s": "E2E"}


@frozen
class Table:
    """A table.

    title: what it shows.
    heads: of its columns.
    """

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def tables(result: LoadResult) -> list[Table]:
    """The table of points; of a single point also its latencies, slices and failures."""
    points = sorted(result.points, key=lambda one: (one.spec.arrivals.rate_per_s or 0.0, one.name))
    found = [Table("points", POINT_HEADS, [_point(one) for one in points])]
    for one in points if len(points) == 1 else ():
        found.append(Table("latencies", ("latency", *one.latencies["ttft_s"]), list(_latencies(one))))
        found.append(Table("over time", SLICE_HEADS, list(_slices(one))))
    failures = [
        (words(one.name), kind, str(count), str(one.counted_outcomes.get(kind, 0)), MEANINGS[Kind[kind]])
        for one in points
        for kind, count in one.outcomes.items()
        if kind != "OK" and kind in Kind.__members__
    ]
    if failures:
        heads = ("point", "kind", "requests", "counted", "meaning")
        found.append(Table("requests that did not end well, and those of them after the warm-up", heads, failures))
    return found


POINT_HEADS = (
    "point", "arrivals", "rate/s", "requests", "ok", "state", "trust", "TTFT p50", "TTFT p99", "TPOT p50", "E2E p99",
    "goodput/s", "good", "tok/s", "tok/s/user", "late p99",
)  # fmt: skip
SLICE_HEADS = ("from", "to", "arrived", "good", "in flight", "TTFT p50", "E2E p50")


def _point(one: Point) -> tuple[str, ...]:
    rate = one.spec.arrivals.rate_per_s
    late = one.lateness_p99_s
    return (
        words(one.name),
        arrivals(one),
        _number(rate or one.offered_per_s, 4),
        str(one.counted),
        str(one.counted_outcomes.get("OK", 0)),
        words(one.state),
        "trusted" if one.trusted else "UNTRUSTED",
        time(one.latencies["ttft_s"]["p50"]),
        time(one.latencies["ttft_s"]["p99"]),
        time(one.latencies["tpot_s"]["p50"]),
        time(one.latencies["e2e_s"]["p99"]),
        plain(one.goodput_per_s),
        share(one.goodput_share),
        _number(one.output_tokens_per_s, 4),
        plain(one.user_tokens_per_s),
        NONE if late is None else units.seconds(late).replace(units.MICRO, "u"),
    )


def arrivals(one: Point) -> str:
    """The arrivals in a word, such as `gamma:0.5`."""
    kind = one.spec.arrivals
    about = {"gamma": kind.burstiness, "closed": kind.clients}.get(kind.kind)
    return kind.kind if about is None else f"{kind.kind}:{about:g}"


def time(figure: Figure) -> str:
    """A time with its interval in one unit, such as `5.2 ms [5.1, 5.4]`."""
    if figure.value is None:
        return NONE
    shown = units.seconds(figure.value).replace(units.MICRO, "u")
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[shown.split()[1]]
    return shown + _ends(figure, scale)


def plain(figure: Figure) -> str:
    """A figure with its interval."""
    return NONE if figure.value is None else _number(figure.value, 4) + _ends(figure, 1.0)


def share(figure: Figure) -> str:
    """A share with its interval, in percent."""
    return NONE if figure.value is None else f"{100 * figure.value:.2f} %{_ends(figure, 0.01)}"


def _ends(figure: Figure, scale: float) -> str:
    if figure.low is None:
        return ""
    return f" [{_number(figure.low / scale, 3)}, {'?' if figure.high is None else _number(figure.high / scale, 3)}]"


def _number(value: float, digits: int) -> str:
    """A number with at most this many digits, never with an exponent."""
    shown = f"{value:.{digits}g}"
    return units.number(value, digits) if "e" in shown else shown


def _latencies(one: Point) -> Iterator[tuple[str, ...]]:
    for name, label in LATENCIES.items():
        yield (label, *(time(figure) for figure in one.latencies[name].values()))


def _slices(one: Point) -> Iterator[tuple[str, ...]]:
    for part in one.slices:
        yield (
            f"{part.begin_s:.4g} s", f"{part.end_s:.4g} s", str(part.arrived), str(part.good), f"{part.in_flight:.3g}",
            time(Figure(value=part.ttft_s)), time(Figure(value=part.e2e_s)),
        )  # fmt: skip


def notes(result: LoadResult) -> list[str]:
    """What to know of a load, a sentence a line."""
    found = [words(one) for one in result.notes]
    if result.origin != "aiperf-load":
        found.append(f"foreign: measured by {words(result.origin)}, whose schedule nothing here proves; never trusted")
    if not result.complete:
        found.append("not complete: the run goes on, or was interrupted")
    for one in result.points:
        found += [f"{words(one.name)}: {words(reason)}" for reason in one.reasons]
    if result.knee is not None:
        capacity, bend = result.knee.capacity_per_s, result.knee.rate_per_s
        found.append(
            f"capacity at {units.percent(result.knee.met)} good requests: {plain(capacity)} requests/s"
            + (f" ({capacity.reason})" if capacity.reason else "")
        )
        found.append(f"knee: {plain(bend)} requests/s" + (f" ({bend.reason})" if bend.reason else ""))
    return found


def lines(result: LoadResult) -> Iterator[str]:
    """Tables and notes as lines, for a reader that has no layout of its own."""
    for table in tables(result):
        yield ""
        yield table.title
        wide = [max(len(row[index]) for row in [table.heads, *table.rows]) for index in range(len(table.heads))]
        for row in (table.heads, *table.rows):
            yield "  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip()
    for note in notes(result):
        yield f"note: {note}"
