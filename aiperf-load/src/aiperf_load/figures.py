"""The figures of a point from its outcomes: a pure function, which a run and a recheck both call."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_core.stats.draws import Floats
from aiperf_load import intervals
from aiperf_load.intervals import Figure
from aiperf_load.outcomes import UNFINISHED, Flag, Kind, Outcomes
from aiperf_load.records import Point, Slice
from aiperf_load.spec import LIMITS, Limits, LoadSpec

# A generator that is later than this share of the TTFT, or of its limit, makes its own figures. LATE_S is accepted.
LATE_SHARE, LATE_S = 0.01, 1e-3
LATE = "UNTRUSTED: the generator was late"
EARLIER = "use a quieter machine, more --processes, or a lower rate"
SLICES = 10
# Steady state: batches of time for the trend, its significance, and the growth that matters.
BATCHES, FEWEST, SIGNIFICANT = 10, 50, 3.355  # t of 8 degrees of freedom, 99 % two-sided
GROWTH, GROWN = 0.5, 2.0
# A stream stalls when a gap between two tokens is longer than both this time and this number of median gaps.
STALL_S, STALL_TIMES = 1.0, 20.0
BEHIND = 0.05  # the share of the arrivals by which the ends of an overloaded server fall short


@frozen(eq=False)
class _Counted:
    """The counted requests: their columns, and what follows from them for each."""

    all: Outcomes
    spec: LoadSpec
    begin_s: float
    end_s: float
    chosen: NDArray[np.bool_]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.all, name)[self.chosen]

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


def point(name: str, spec: LoadSpec, started: str, found: Outcomes, *, complete: bool) -> Point:
    """All figures of a point."""
    counted = _counted(found, spec, complete=complete)
    well = counted.kind == Kind.OK
    good = well & keeps(counted, spec.limits)
    offered = len(well) / counted.length_s
    shared = intervals.share(good)
    lateness, limit, late = _lateness(counted)
    state, told = _state(found, counted)
    queued = _quantile(counted.sent_s - counted.ready_s, 0.99) if spec.rules.cap is not None else None
    latencies = _latencies(counted, well)
    return Point(
        name=name,
        spec=spec,
        started=started,
        complete=complete,
        requests=len(found),
        outcomes=_kinds(found.kind),
        counted=len(well),
        counted_outcomes=_kinds(counted.kind),
        trusted=not late and bool(well.any()),
        reasons=[*late, *told, *_remarks(counted, well, spec)],
        state=state,
        offered_per_s=offered,
        lateness_p99_s=lateness,
        lateness_limit_s=limit,
        queued_p99_s=queued,
        latencies=latencies,
        goodput_per_s=_scaled(shared, offered),
        goodput_share=shared,
        good_tokens_per_s=float(counted.output_tokens[good].sum()) / counted.length_s,
        input_tokens_per_s=float(counted.input_tokens[well].sum()) / counted.length_s,
        output_tokens_per_s=_arrived_tokens(found, counted) / counted.length_s,
        user_tokens_per_s=_inverse(latencies["tpot_s"]["p50"]),
        in_flight=_in_flight(found, counted.begin_s, counted.end_s),
        residence_s=float((counted.last_s - counted.scheduled_s)[well].mean()) if well.any() else None,
        flags={one.name or "": int((counted.flags & one.value > 0).sum()) for one in Flag},
        slices=_slices(found, counted, good),
    )


def _counted(found: Outcomes, spec: LoadSpec, *, complete: bool) -> _Counted:
    begin_s, end_s = spec.rules.warmup_s, spec.rules.duration_s
    finished = ~np.isin(found.kind, [int(one) for one in UNFINISHED])
    if not complete:
        # Up to the first request that the interruption left unfinished: later ones that ended are the quick ones.
        open_s = found.scheduled_s[~finished]
        end_s = float(np.nanmin(open_s)) if len(open_s) else end_s
        end_s = max(end_s, begin_s + 1e-9)
    inside = (found.scheduled_s >= begin_s) & (found.scheduled_s < end_s) & finished
    return _Counted(found, spec, begin_s, end_s, inside)


def _kinds(kind: NDArray[np.uint8]) -> dict[str, int]:
    numbers = Counter(kind.tolist())
    return {one.name: numbers[int(one)] for one in Kind if numbers[int(one)] or one is Kind.OK}


# --- latencies


def tpot(found: Any) -> Floats:
    """The mean time of a token after the first event; NaN where none follows it.

    Each gap stands for a token. Where events do not tell how many tokens they have, the first is taken to have one.
    """
    more = np.where(found.flags & Flag.UNEVEN, found.output_tokens - 1, found.gaps)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(more > 0, (found.last_s - found.first_s) / more, np.nan)


def longest_gaps(found: Outcomes) -> Floats:
    """The longest gap between tokens of each request; 0 for those without."""
    longest = np.zeros(len(found))
    np.maximum.at(longest, np.repeat(np.arange(len(found)), found.gaps), found.gap_s)
    return longest


def keeps(counted: _Counted, limits: Limits) -> NDArray[np.bool_]:
    """Whether each request kept all limits that are given. A request of one event has no TPOT, and keeps it."""
    kept = np.ones(int(counted.chosen.sum()), dtype=bool)
    measured: dict[str, Callable[[], Floats]] = {
        "ttft_s": lambda: counted.first_s - counted.scheduled_s,
        "tpot_s": lambda: np.nan_to_num(tpot(counted), nan=0.0),
        "e2e_s": lambda: counted.last_s - counted.scheduled_s,
        "gap_s": lambda: longest_gaps(counted.all)[counted.chosen],
    }
    for name in LIMITS:
        limit = getattr(limits, name)
        if limit is not None:
            with np.errstate(invalid="ignore"):
                kept &= measured[name]() <= limit
    return kept


def _latencies(counted: _Counted, well: NDArray[np.bool_]) -> dict[str, dict[str, Figure]]:
    """Percentiles over the requests that ended well. Timeouts count as longer than all of them."""
    timed_out = counted.kind == Kind.TIMEOUT
    seen = well | timed_out
    censored = int(timed_out.sum())

    def of(values: Floats) -> dict[str, Figure]:
        return intervals.percentiles(np.where(timed_out, np.inf, values)[seen], censored)

    per_token = tpot(counted)[well]
    return {
        "ttft_s": of(counted.first_s - counted.scheduled_s),
        "itl_s": intervals.percentiles(_gaps(counted)),
        "tpot_s": intervals.percentiles(per_token[~np.isnan(per_token)]),
        "e2e_s": of(counted.last_s - counted.scheduled_s),
    }


def _gaps(counted: _Counted) -> Floats:
    """The gaps between tokens of the requests that ended well, request after request."""
    every = counted.all
    gaps: Floats = every.gap_s[np.repeat(counted.chosen & (every.kind == Kind.OK), every.gaps)].astype(np.float64)
    return gaps


def _lateness(counted: _Counted) -> tuple[float | None, float | None, list[str]]:
    if counted.spec.arrivals.kind == "closed":
        return None, None, []
    late = counted.ready_s - counted.scheduled_s
    p99 = _quantile(late, 0.99)
    ttft = _quantile((counted.first_s - counted.scheduled_s)[counted.kind == Kind.OK], 0.5)
    if p99 is None:
        return None, None, []
    # The largest: the strictest would refuse every fast server. TTFT counts from the scheduled arrival, so that the
    # lateness is in it, and one that is small beside the limit of the TTFT changes no outcome.
    limit = max(LATE_S, LATE_SHARE * (ttft or 0.0), LATE_SHARE * (counted.spec.limits.ttft_s or 0.0))
    if p99 <= limit:
        return p99, limit, []
    return (
        p99,
        limit,
        [f"{LATE}, p99 {p99 * 1e3:.2f} ms of at most {limit * 1e3:.2f} ms, which every latency includes; {EARLIER}"],
    )


def _quantile(values: Floats, share: float) -> float | None:
    values = values[~np.isnan(values)]
    return float(np.quantile(values, share, method="inverted_cdf")) if len(values) else None


def _scaled(one: Figure, by: float) -> Figure:
    if one.value is None or one.low is None or one.high is None:
        return one
    return Figure(value=one.value * by, low=one.low * by, high=one.high * by)


def _inverse(one: Figure) -> Figure:
    if not one.value:
        return Figure(reason=one.reason or "all tokens after the first arrived with it")
    low = 1 / one.high if one.high else None
    return Figure(value=1 / one.value, low=low, high=1 / one.low if one.low else None, reason=one.reason)


# --- over time


def _ends(found: Outcomes) -> tuple[Floats, Floats]:
    """When each request arrived and ended; one that never ended is in flight for ever."""
    return found.scheduled_s, np.where(np.isnan(found.done_s), np.inf, found.done_s)


def _in_flight(found: Outcomes, begin_s: float, end_s: float) -> float:
    """Requests between arrival and end, on average over a time."""
    arrived, ended = _ends(found)
    inside = np.clip(np.minimum(ended, end_s) - np.maximum(arrived, begin_s), 0, None)
    return float(inside.sum() / (end_s - begin_s)) if end_s > begin_s else 0.0


def _arrived_tokens(found: Outcomes, counted: _Counted) -> float:
    """Output tokens that arrived within the counted time, of requests that ended well."""
    well = found.kind == Kind.OK
    firsts = (well & (found.first_s >= counted.begin_s) & (found.first_s < counted.end_s)).sum()
    owner = np.repeat(np.arange(len(found)), found.gaps)
    summed = np.cumsum(found.gap_s, dtype=np.float64)
    before = np.concatenate(([0.0], summed))[np.cumsum(found.gaps) - found.gaps]
    at_s = found.first_s[owner] + summed - before[owner]
    # Where an event had several tokens and their numbers are unknown, each stands for its share.
    worth = found.output_tokens / np.maximum(found.gaps + 1, 1)
    inside = well[owner] & (at_s >= counted.begin_s) & (at_s < counted.end_s)
    first_worth = worth[well & (found.first_s >= counted.begin_s) & (found.first_s < counted.end_s)].sum()
    return float(worth[owner][inside].sum() + first_worth) if firsts or inside.any() else 0.0


def _slices(found: Outcomes, counted: _Counted, good: NDArray[np.bool_]) -> list[Slice]:
    edges = np.linspace(counted.begin_s, counted.end_s, SLICES + 1)
    at_s, well = counted.scheduled_s, counted.kind == Kind.OK
    slices = []
    for begin_s, end_s in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        inside = (at_s >= begin_s) & (at_s < end_s)
        slices.append(
            Slice(
                begin_s=begin_s, end_s=end_s, arrived=int(inside.sum()), good=int((inside & good).sum()),
                in_flight=_in_flight(found, begin_s, end_s),
                ttft_s=_quantile((counted.first_s - at_s)[inside & well], 0.5),
                e2e_s=_quantile((counted.last_s - at_s)[inside & well], 0.5),
            )
        )  # fmt: skip
    return slices


def _state(found: Outcomes, counted: _Counted) -> tuple[str, list[str]]:
    """Whether the number of requests in flight has a trend, by least squares on batches of time."""
    if counted.spec.arrivals.kind == "closed":
        return "STEADY", ["a closed loop: each client waits for its last answer, so the load follows the server"]
    if len(counted.kind) < FEWEST:
        return "UNCLEAR", [f"fewer than {FEWEST} requests were counted, too few to see a trend"]
    edges = np.linspace(counted.begin_s, counted.end_s, BATCHES + 1)
    levels = np.array([_in_flight(found, *pair) for pair in pairwise(edges)])
    x = np.arange(BATCHES) - (BATCHES - 1) / 2
    slope = float(x @ levels / (x @ x))
    left = levels - levels.mean() - slope * x
    error = math.sqrt(float(left @ left) / (BATCHES - 2) / float(x @ x))
    grown = slope * (BATCHES - 1)
    grows = slope > SIGNIFICANT * error and grown > max(GROWN, GROWTH * float(levels[: BATCHES // 2].mean()))
    _, ended = _ends(found)
    done = int(((ended >= counted.begin_s) & (ended < counted.end_s)).sum())
    short = 1 - done / max(1, len(counted.kind))
    if grows and short > BEHIND:
        return "OVERLOAD", [
            f"overload: {len(counted.kind)} requests arrived and {done} ended in the counted time, so that percentiles "
            "grow with the duration"
        ]
    if grows:
        return "GROWING", ["the number of requests in flight grew; measure for longer, or at a lower rate"]
    return "STEADY", []


def _remarks(counted: _Counted, well: NDArray[np.bool_], spec: LoadSpec) -> list[str]:
    found = []
    if not well.any():
        found.append("no counted request ended well")
    gaps = _gaps(counted)
    longest = longest_gaps(counted.all)[counted.chosen][well]
    usual = float(np.median(gaps)) if len(gaps) else 0.0
    stalled = longest > max(STALL_S, STALL_TIMES * usual)
    if stalled.any():
        found.append(
            f"stalled streams: {int(stalled.sum())} requests that ended well had a gap between tokens of up to "
            f"{longest.max():.3g} s; the median gap is {usual * 1e3:.3g} ms"
        )
    flags = counted.flags[well]
    if (flags & Flag.UNEVEN).any():
        found.append("the server sends several tokens in an event without their number; gaps are those of events")
    if (flags & Flag.SPLIT).any():
        found.append("the server sends several tokens in an event; their gap was divided evenly")
    if (flags & Flag.NO_USAGE).any():
        found.append("the server sends no usage; its events were counted as tokens")
    if spec.rules.cap is not None:
        found.append(f"at most {spec.rules.cap} requests in flight; the wait for a place is part of every latency")
    return found
