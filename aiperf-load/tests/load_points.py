"""Points of loads that nobody measured."""

from attrs import evolve

from aiperf_load import figures
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import Kind, Reply, outcomes
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server

SERVED_S, TOKENS = 0.05, 8


def point(rate, **changes):
    """A point of 10 s at a rate; every answer takes the same time."""
    spec = LoadSpec(server=Server(url="http://127.0.0.1:1"), arrivals=Arrivals(rate_per_s=rate),
                    rules=Rules(duration_s=10.0, warmup_s=0.0))  # fmt: skip
    replies = [
        Reply(number, 9 + at, 8, TOKENS, 9 + at, 9 + at, 9.01 + at, 9 + at + SERVED_S, 9 + at + SERVED_S, TOKENS, Kind.OK,
              200, gaps_s=[(SERVED_S - 0.01) / (TOKENS - 1)] * (TOKENS - 1))
        for number, at in enumerate(plan(spec).scheduled_s.tolist())
    ]  # fmt: skip
    found = figures.point(f"p{rate:03.0f}", spec, "", outcomes(replies, 9.0), complete=True)
    return evolve(found, **changes)
