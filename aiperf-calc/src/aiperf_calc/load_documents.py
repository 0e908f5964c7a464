"""The documents of kind `load` in a bundle, as far as analyses read them.

They follow the JSON Schema that `aiperf schema load` prints. `aiperf-load`, the package that writes them, need not be
installed.
"""

from attrs import frozen

from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.results import read_payload
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import document_path
from aiperf_core.results.models import Document

KIND = "load"
FORMAT = 1
LATENCIES = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9")


@frozen(kw_only=True)
class LoadFigure:
    """A figure with its 95 % interval, or the reason why it has no value or no end."""

    value: float | None
    low: float | None
    high: float | None
    reason: str | None


@frozen(kw_only=True)
class Server:
    """The server under load."""

    url: str
    endpoint: str
    model: str


@frozen(kw_only=True)
class Workload:
    """The tokens of a prompt and of an answer, from the fewest to the most."""

    input_low: int
    input_high: int
    output_low: int
    output_high: int


@frozen(kw_only=True)
class Arrivals:
    """When requests arrive."""

    kind: str
    rate_per_s: float | None
    burstiness: float | None
    clients: int | None


@frozen(kw_only=True)
class Limits:
    """The limits of a good request."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    gap_s: float | None


@frozen(kw_only=True)
class LoadSpec:
    """The settings of a point."""

    server: Server
    workload: Workload
    arrivals: Arrivals
    limits: Limits


@frozen(kw_only=True)
class Point:
    """One load and what it showed. `aiperf schema load` describes the fields."""

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
    latencies: dict[str, dict[str, LoadFigure]]
    goodput_per_s: LoadFigure
    goodput_share: LoadFigure
    good_tokens_per_s: float | None
    input_tokens_per_s: float | None
    output_tokens_per_s: float
    user_tokens_per_s: LoadFigure
    in_flight: float | None
    residence_s: float | None


@frozen(kw_only=True)
class Knee:
    """The capacity of a server, and where the curve of a sweep bends."""

    capacity_per_s: LoadFigure
    met: float
    rate_per_s: LoadFigure


@frozen(kw_only=True)
class Load:
    """The points of a load."""

    mode: str
    points: list[Point]
    origin: str
    complete: bool
    knee: Knee | None


def read(bundle: Bundle, name: str) -> tuple[Document, Load]:
    """A load of a bundle, with its document. Raises BundleError for one of another format."""
    document = bundle.document(KIND, name)
    return document, load_of(document, words(str(bundle.path / document_path(KIND, name))))


def load_of(document: Document, place: str) -> Load:
    """The load of a document that lies at a place. Raises BundleError for one of another format."""
    load = read_payload(document, Load, FORMAT, "aiperf-calc", place=place)
    problem = _problem(load.points)
    if problem:
        raise BundleError(f"'{place}' holds no load of format {FORMAT}: {problem}.")
    return load


def _problem(points: list[Point]) -> str | None:
    """The fault that the types of fields allow: a name twice, or a missing percentile; None without one."""
    names = [point.name for point in points]
    for point in points:
        if names.count(point.name) > 1:
            return f"it has several points '{words(point.name)}'"
        for name in LATENCIES:
            for share in PERCENTILES:
                if share not in point.latencies.get(name, {}):
                    return f"point '{words(point.name)}' has no {share} of {name}"
    return None
