"""A load as tables and notes: rows of texts, and lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from aiperf_core import units
from aiperf_core.names import words
from aiperf_load.figures import EARLIER, LATE
from aiperf_load.intervals import Figure
from aiperf_load.outcomes import MEANINGS, Kind
from aiperf_load.records import LoadResult, Point
from aiperf_load.spec import LIMITS

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


def tables(result: LoadResult, *, verbose: bool = False) -> list[Table]:
    """The table of points and that of failures.

    verbose: all figures of the points with their intervals; of a single point also its latencies and slices.
    """
    points = _by_rate(result)
    names = labels(result)
    if verbose:
        found = [Table("points", POINT_HEADS, [_point(one, names[one.name]) for one in points])]
    else:
        outcome = "outcome, good" if any(map(_has_limits, points)) else "outcome"
        found = [Table("points", (*BRIEF_HEADS, outcome), [_brief(one, names[one.name]) for one in points])]
    for one in points if verbose and len(points) == 1 else ():
        found.append(Table("latencies", ("latency", *one.latencies["ttft_s"]), list(_latencies(one))))
        found.append(Table("over time", SLICE_HEADS, list(_slices(one))))
    failures = [
        (names[one.name], kind, str(count), str(one.counted_outcomes.get(kind, 0)), MEANINGS[Kind[kind]])
        for one in points
        for kind, count in one.outcomes.items()
        if kind != "OK" and kind in Kind.__members__
    ]
    if failures:
        heads = ("point", "kind", "requests", "counted", "meaning")
        found.append(Table("requests that did not end well, and those of them after the warm-up", heads, failures))
    return found


def _by_rate(result: LoadResult) -> list[Point]:
    return sorted(result.points, key=lambda one: (one.spec.arrivals.rate_per_s or 0.0, one.name))


def labels(result: LoadResult) -> dict[str, str]:
    """The names of points for people, by those in the document: `20/s`, `closed:8`, and `20/s #2` for a repeat."""
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for one in _by_rate(result):
        rate = one.spec.arrivals.rate_per_s
        label = f"{_number(rate, 4)}/s" if rate else words(arrivals(one))
        counts[label] += 1
        found[one.name] = label if counts[label] == 1 else f"{label} #{counts[label]}"
    return found


BRIEF_HEADS = ("rate", "requests/s", "TTFT p50", "TTFT p99", "TPOT p50", "tokens/s")
POINT_HEADS = (
    "point", "arrivals", "rate/s", "requests", "ok", "state", "trust", "TTFT p50", "TTFT p99", "TPOT p50", "E2E p99",
    "goodput/s", "good", "tok/s", "tok/s/user", "late p99",
)  # fmt: skip
SLICE_HEADS = ("from", "to", "arrived", "good", "in flight", "TTFT p50", "E2E p50")


def _brief(one: Point, name: str) -> tuple[str, ...]:
    """A point beside others: medians and tails without intervals, and the outcome."""
    well = one.counted_outcomes.get(Kind.OK.name, 0)
    times = (one.latencies["ttft_s"]["p50"], one.latencies["ttft_s"]["p99"], one.latencies["tpot_s"]["p50"])
    return (
        name,
        _number(one.offered_per_s * well / one.counted, 3) if one.counted else NONE,
        *(time(Figure(value=figure.value)) for figure in times),
        _number(one.output_tokens_per_s, 4),
        _outcome(one),
    )


def _outcome(one: Point) -> str:
    """The outcome in a word, and the share of good requests where these have limits."""
    word = words(one.state) if one.trusted else "UNTRUSTED"
    good = one.goodput_share.value
    return f"{word}, {_number(100 * good, 3)} %" if _has_limits(one) and good is not None else word


def _has_limits(one: Point) -> bool:
    return any(getattr(one.spec.limits, name) is not None for name in LIMITS)


def _point(one: Point, name: str) -> tuple[str, ...]:
    rate = one.spec.arrivals.rate_per_s
    late = one.lateness_p99_s
    return (
        name,
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
    """Remarks on a load, a sentence a line. Points of which the same is true share a line."""
    names = labels(result)
    found = [_named(words(one), names) for one in result.notes]
    if result.origin != "aiperf-load":
        found.append(f"foreign: measured by {words(result.origin)}, whose schedule nothing here proves; never trusted")
    if not result.complete:
        found.append("not complete: the run goes on, or was interrupted")
    points = _by_rate(result)
    found += _shared((names[one.name], words(reason)) for one in points for reason in one.reasons if LATE not in reason)
    late = [one for one in points if any(LATE in reason for reason in one.reasons)]
    if late:
        of, limit = (
            _range_ms([value for one in late if (value := getattr(one, name)) is not None])
            for name in ("lateness_p99_s", "lateness_limit_s")
        )
        told = f"{LATE}, p99 {of} ms of at most {limit} ms, which every latency includes; {EARLIER}"
        found.append(f"{', '.join(names[one.name] for one in late)}: {told}")
    found += _shared(
        (names[one.name], f"TTFT p99 {words(reason.partition(', ')[0])}")
        for one in points
        if (reason := one.latencies["ttft_s"]["p99"].reason) and one.latencies["ttft_s"]["p99"].value is None
    )
    if result.knee is not None:
        capacity, bend = result.knee.capacity_per_s, result.knee.rate_per_s
        met = f"at {units.percent(result.knee.met)} good requests"
        if capacity.value is None:
            found.append(f"no capacity {met}: {capacity.reason}")
        else:
            reason = f" ({capacity.reason})" if capacity.reason else ""
            found.append(f"capacity {met}: {plain(capacity)} requests/s{reason}")
        if bend.value is not None:
            found.append(f"knee: {plain(bend)} requests/s")
    return found


def _named(note: str, names: Mapping[str, str]) -> str:
    """A note that begins with the name of a point, with its name for people."""
    name, colon, rest = note.partition(": ")
    return f"{names[name]}: {rest}" if colon and name in names else note


def _shared(told: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each sentence, with all the points of which it is true."""
    lines: dict[str, list[str]] = {}
    for name, sentence in told:
        lines.setdefault(sentence, []).append(name)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in lines.items()]


def _range_ms(values: Sequence[float]) -> str:
    low, high = (f"{1e3 * end:.2f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


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
