"""The results of a load, as plain data in SI units: the payload of a document of kind `load`."""

from attrs import field, frozen

from aiperf_load.intervals import Figure
from aiperf_load.spec import LoadSpec

FORMAT = 1


@frozen(kw_only=True)
class Slice:
    """A part of the counted time.

    begin_s, end_s: from the start of the point.
    arrived: requests that arrived in it.
    good: those of them that kept all limits.
    in_flight: requests between their arrival and their end, on average over the time.
    ttft_s, e2e_s: medians of the requests that arrived in it and ended well; null where there is none.
    """

    begin_s: float
    end_s: float
    arrived: int
    good: int
    in_flight: float
    ttft_s: float | None
    e2e_s: float | None


@frozen(kw_only=True)
class Point:
    """One load and what it showed. Figures are of the counted requests, which arrived after the warm-up.

    What a foreign result does not tell is null, or has a reason in place of a value; in its `spec`, texts are empty and
    numbers 0.

    name: its name within the document, and of its columns of samples.
    spec: what was asked for.
    started: when it began, in ISO 8601.
    complete: false where the run was interrupted.
    requests: the scheduled ones; `outcomes` adds up to it.
    outcomes: the number of each kind of end.
    counted: the requests that arrived after the warm-up.
    counted_outcomes: the number of each kind of end among these.
    trusted: whether the generator was on time.
    reasons: why the point is not trusted, or what to know of it.
    state: `STEADY`; `GROWING` where the number of requests in flight grew; `OVERLOAD` where the server fell behind for
        good; `UNCLEAR` where the requests are too few to tell.
    offered_per_s: the counted arrivals a second.
    lateness_p99_s, lateness_limit_s: when the generator acted, less the scheduled arrival; and how much is accepted.
    queued_p99_s: the wait for a place under a cap.
    latencies: percentiles of `ttft_s`, `itl_s` (every gap between tokens), `tpot_s` and `e2e_s`.
    goodput_per_s, goodput_share, good_tokens_per_s: requests that kept all limits, and their output tokens.
    input_tokens_per_s, output_tokens_per_s: of requests that ended well; output tokens by the time of their arrival.
    user_tokens_per_s: tokens a second that a user sees after the first: 1 / the median of `tpot_s`.
    in_flight: requests in flight, on average over the counted time.
    residence_s: the mean time from arrival to end of the requests that ended well.
    flags: the numbers of requests with several tokens in an event (`SPLIT`, `UNEVEN`) or without usage (`NO_USAGE`).
    """

    name: str
    spec: LoadSpec
    started: str
    complete: bool
    requests: int
    outcomes: dict[str, int]
    counted: int
    counted_outcomes: dict[str, int]
    trusted: bool
    reasons: list[str]
    state: str
    offered_per_s: float
    lateness_p99_s: float | None
    lateness_limit_s: float | None
    queued_p99_s: float | None
    latencies: dict[str, dict[str, Figure]]
    goodput_per_s: Figure
    goodput_share: Figure
    good_tokens_per_s: float | None
    input_tokens_per_s: float | None
    output_tokens_per_s: float
    user_tokens_per_s: Figure
    in_flight: float | None
    residence_s: float | None
    flags: dict[str, int] = field(factory=dict)
    slices: list[Slice] = field(factory=list)


@frozen(kw_only=True)
class Knee:
    """Where a sweep bends, and what the server can serve.

    capacity_per_s: the highest measured rate whose goodput share is at least `met`; `low` to `high` is the range in
        which the true one lies: up to the lowest rate that missed it.
    met: the share of good requests that was asked for.
    rate_per_s: the rate at the knee of the curve of tokens a second for a user over tokens a second in all: the point
        farthest from the line between the ends. Its interval is by draws of the points within their intervals.
    """

    capacity_per_s: Figure
    met: float
    rate_per_s: Figure


@frozen(kw_only=True)
class LoadResult:
    """The payload of a document of kind `load`.

    format: of this payload.
    mode: `run`, `sweep` or `import`.
    origin: the tool that measured. Results of others than `aiperf-load` are foreign, and never trusted.
    complete: false while it goes on, and where it was interrupted.
    samples_sha256: of the file with the columns of all points, beside the document; null for foreign results.
    knee: of a sweep.
    notes: what a foreign result lacks, and other remarks.
    """

    mode: str
    points: list[Point]
    origin: str = "aiperf-load"
    complete: bool = False
    samples_sha256: str | None = None
    knee: Knee | None = None
    notes: list[str] = field(factory=list)
    format: int = FORMAT
