"""A point from what another tool tells: what it does not tell is null with a reason, never a guess."""

from collections.abc import Mapping

from attrs import field, frozen

from aiperf_load.intervals import BEYOND, PERCENTILES, Figure, requests_for
from aiperf_load.records import Point
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server, Workload

Latencies = Mapping[str, Mapping[str, float]]


@frozen(kw_only=True)
class Summary:
    """One load in the figures of another tool, in SI units.

    url, model, started: empty where it does not tell.
    input_tokens, output_tokens: the smallest and the largest of a request; 0 where it does not tell.
    ok, failed, interrupted: the numbers of requests.
    latencies: percentiles by the names of `PERCENTILES`, of `ttft_s`, `itl_s`, `tpot_s` and `e2e_s`. Times below 0,
        which some tools compute, become no figures.
    """

    url: str = ""
    model: str = ""
    started: str = ""
    arrivals: Arrivals
    cap: int | None = None
    duration_s: float
    input_tokens: tuple[int, int] = (0, 0)
    output_tokens: tuple[int, int] = (0, 0)
    ok: int
    failed: int = 0
    interrupted: int = 0
    latencies: Latencies
    output_tokens_per_s: float
    input_tokens_per_s: float | None = None
    goodput_per_s: float | None = None
    in_flight: float | None = None
    residence_s: float | None = None
    reasons: list[str] = field(factory=list)


def point(name: str, told: Summary, tool: str) -> Point:
    """A point that is never trusted."""
    requests = told.ok + told.failed + told.interrupted
    outcomes = {"OK": told.ok, "FAILED": told.failed, "INTERRUPTED": told.interrupted}
    outcomes = {kind: count for kind, count in outcomes.items() if count or kind == "OK"}
    latencies = {name: _figures(told.latencies.get(name, {}), told.ok, tool)
                 for name in ("ttft_s", "itl_s", "tpot_s", "e2e_s")}  # fmt: skip
    median = latencies["tpot_s"]["p50"]
    none = Figure(reason=f"{tool} tells no goodput")
    good = none if told.goodput_per_s is None else Figure(value=told.goodput_per_s)
    counted = told.ok + told.failed
    offered = counted / told.duration_s
    return Point(
        name=name,
        spec=_spec(told),
        started=told.started,
        complete=True,
        requests=requests,
        outcomes=outcomes,
        counted=counted,
        counted_outcomes={kind: count for kind, count in outcomes.items() if kind != "INTERRUPTED"},
        trusted=False,
        reasons=[f"UNTRUSTED: measured by {tool}, whose lateness is not known", *told.reasons],
        state="UNCLEAR",
        offered_per_s=offered,
        lateness_p99_s=None,
        lateness_limit_s=None,
        queued_p99_s=None,
        latencies=latencies,
        goodput_per_s=good,
        goodput_share=Figure(value=min(1.0, good.value / offered)) if good.value is not None and offered else none,
        good_tokens_per_s=None,
        input_tokens_per_s=told.input_tokens_per_s,
        output_tokens_per_s=told.output_tokens_per_s,
        user_tokens_per_s=Figure(value=1 / median.value) if median.value else Figure(reason=median.reason),
        in_flight=told.in_flight,
        residence_s=None if (told.residence_s or 0.0) < 0 else told.residence_s,
    )


def _figures(values: Mapping[str, float], count: int, tool: str) -> dict[str, Figure]:
    """All percentiles; by the same rule as for our own, one needs requests beyond it. None has an interval."""
    found = {}
    for name, share in PERCENTILES.items():
        if name not in values:
            found[name] = Figure(reason=f"{tool} tells none")
        elif values[name] < 0:
            found[name] = Figure(reason=f"{tool} tells {values[name] * 1e3:g} ms, which is no time")
        elif count * (1 - share) < BEYOND - 1e-9:
            found[name] = Figure(reason=f"needs {requests_for(share):,} requests, {count:,} were counted")
        else:
            found[name] = Figure(value=values[name], reason=f"{tool} tells no interval")
    return found


def _spec(told: Summary) -> LoadSpec:
    least_in, most_in = told.input_tokens
    least_out, most_out = told.output_tokens
    return LoadSpec(
        server=Server(url=told.url, endpoint="", model=told.model),
        workload=Workload(
            input_low=least_in, input_high=most_in, output_low=least_out, output_high=most_out, prompt="", vocabulary=0,
            exact_output=False,
        ),
        arrivals=told.arrivals,
        rules=Rules(duration_s=told.duration_s, warmup_s=0.0, timeout_s=0.0, cap=told.cap, processes=0, seed=0),
    )  # fmt: skip
