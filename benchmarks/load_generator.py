"""What the generator of `aiperf load` measures, against what is known of the test server. Needs a quiet machine.

    python benchmarks/load_generator.py --seconds 120

queue: the times in an M/D/1 queue at several loads, against the exact path of the same arrivals and the closed form. A
percentile of some thousand requests of a busy queue is off by chance alone; so the seed is the first whose arrivals
have, in an exact queue, the percentiles of the closed form within 0.5 %. That is decided before the first request.

stall: the server serves nothing for a while. The percentile must have the waits of all requests that arrived meanwhile.
The control counts from the moment of sending, under a cap on the requests in flight, and misses the stall.

events: 200 streams a second of 50 tokens each, and how late the generator acted.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from aiperf_load import figures, queueing
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import Kind, Outcomes
from aiperf_load.processes import generate
from aiperf_load.records import Point
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server, Workload

Floats = NDArray[np.float64]
SERVICE_S = 0.05  # long beside the 2 ms that an exchange over HTTP takes, which the closed form does not have
WITHIN = 0.03  # of the closed form, for percentiles
NEAR = 0.005  # of the closed form, for the path of the arrivals
SHARES = {"p50": 0.5, "p99": 0.99}
LATE_S = 1e-3
EVENTS_PER_S, TOKENS = 10_000, 50


@contextmanager
def server(*arguments: str) -> Iterator[str]:
    """The server `clockwork` as a process of its own; its URL."""
    line = [sys.executable, "-u", "-m", "aiperf_core", "load", "serve", "clockwork", *arguments, "--port", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def spec_of(url: str, kind: str, rate_per_s: float, **rules: float) -> LoadSpec:
    """A load of short requests."""
    return LoadSpec(
        server=Server(url=url), workload=Workload(input_low=8, input_high=8, output_low=1, output_high=1),
        arrivals=Arrivals(kind=kind, rate_per_s=rate_per_s), rules=Rules(**rules),  # type: ignore[arg-type]
    )  # fmt: skip


def measured(spec: LoadSpec) -> tuple[Outcomes, Point]:
    """Generate a load; its requests and its figures."""
    found, interrupted = generate(spec, plan(spec))
    if interrupted:
        raise KeyboardInterrupt
    return found, figures.point("p000", spec, "", found, complete=True)


def quantile(values: Floats, share: float) -> float:
    """A percentile as the figures of a load have it."""
    return float(np.quantile(values, share, method="inverted_cdf"))


# --- a queue


def path(arrivals_s: Floats, service_s: float) -> Floats:
    """The times of these arrivals in an exact queue with a constant service."""
    walk = np.concatenate(([0.0], np.cumsum(service_s - np.diff(arrivals_s))))
    return walk - np.minimum.accumulate(walk) + service_s


@frozen
class Percentile:
    """A percentile of the time in an M/D/1 queue, in seconds: measured, of the path of the arrivals, and exact."""

    load: float
    name: str
    requests: int
    measured: float
    path: float
    exact: float

    @property
    def off(self) -> float:
        """The measured one over the exact one, less 1."""
        return self.measured / self.exact - 1


def near_theory(spec: LoadSpec, load: float) -> LoadSpec:
    """The load with the first seed whose arrivals have the percentiles of the closed form in an exact queue."""
    exact = [queueing.deterministic(load / SERVICE_S, SERVICE_S, share) for share in SHARES.values()]
    for seed in range(1, 100_000):
        one = evolve(spec, rules=evolve(spec.rules, seed=seed))
        arrivals = plan(one).scheduled_s
        times = path(arrivals, SERVICE_S)[arrivals >= one.rules.warmup_s]
        if all(abs(quantile(times, share) / q - 1) < NEAR for share, q in zip(SHARES.values(), exact, strict=True)):
            return one
    raise ValueError("no seed has the percentiles of the closed form; measure for longer")


def queue(url: str, load: float, seconds: float) -> list[Percentile]:
    """Measure percentiles of an M/D/1 queue."""
    spec = spec_of(url, "poisson", load / SERVICE_S, duration_s=seconds, warmup_s=0.05 * seconds, timeout_s=60.0)
    spec = near_theory(spec, load)
    found, point = measured(spec)
    assert point.outcomes == {"OK": point.requests}, point.outcomes
    counted = found.scheduled_s >= spec.rules.warmup_s
    exact = path(found.scheduled_s, SERVICE_S)[counted]
    times = (found.last_s - found.scheduled_s)[counted]
    return [
        Percentile(
            load, name, int(counted.sum()), quantile(times, share), quantile(exact, share),
            queueing.deterministic(load / SERVICE_S, SERVICE_S, share),
        )
        for name, share in SHARES.items()
    ]  # fmt: skip


# --- a stall


@frozen
class Stall:
    """The p99 over a stall, in seconds: exact, from the scheduled arrival (ours), and from sending (the control)."""

    exact: float
    ours: float
    control: float


def stall(seconds: float, at_s: float, length_s: float) -> Stall:
    """Measure a server that stalls once, with constant arrivals and at most one request in flight."""
    rate, service_s = 100.0, 1e-3
    with server("--service", f"deterministic:{service_s}", "--stall", f"{at_s}:{length_s}") as url:
        spec = spec_of(url, "constant", rate, duration_s=seconds, warmup_s=0.0, timeout_s=60.0)
        # The server counts from the first request: the first that is scheduled.
        spec = evolve(spec, rules=evolve(spec.rules, cap=1))
        found, point = measured(spec)
    assert point.outcomes == {"OK": point.requests}, point.outcomes
    since_s = found.scheduled_s - found.scheduled_s[0]
    inside = (since_s >= at_s) & (since_s < at_s + length_s)
    # A request of the stall waits for its end, and for the services of those before it.
    left_s = np.where(inside, at_s + length_s - since_s, 0.0)
    exact = path_after(since_s, left_s, service_s)
    return Stall(
        quantile(exact, 0.99),
        quantile(found.last_s - found.scheduled_s, 0.99),
        quantile(found.last_s - found.sent_s, 0.99),
    )


def path_after(arrivals_s: Floats, closed_s: Floats, service_s: float) -> Floats:
    """The times of arrivals in an exact queue, whose service begins `closed_s` after the arrival or later."""
    free_s, times = 0.0, []
    for arrival_s, wait_s in zip(arrivals_s.tolist(), closed_s.tolist(), strict=True):
        free_s = max(free_s, arrival_s + wait_s) + service_s
        times.append(free_s - arrival_s)
    return np.array(times)


# --- many events


@frozen
class Events:
    """Figures of many streams.

    per_s: events that arrived in a second.
    lateness_p99_s: of the generator.
    requests, late: that were counted, and those of them for which it acted more than `LATE_S` too late.
    busy: share of a processor that the generator used.
    """

    per_s: float
    lateness_p99_s: float
    requests: int
    late: int
    busy: float
    outcomes: dict[str, int]


def events(seconds: float, per_s: float = EVENTS_PER_S) -> Events:
    """Measure streams of many tokens from one process, with `per_s` events in a second."""
    rate = per_s / TOKENS
    with server("--service", "deterministic:1ms", "--gap", "5ms") as url:
        spec = spec_of(url, "poisson", rate, duration_s=seconds, warmup_s=0.2 * seconds, timeout_s=60.0)
        work = evolve(spec.workload, output_low=TOKENS, output_high=TOKENS)
        start = time.process_time()
        found, point = measured(evolve(spec, workload=work))
        busy = (time.process_time() - start) / seconds
    assert point.lateness_p99_s is not None
    length_s = seconds - spec.rules.warmup_s
    counted = found.scheduled_s >= spec.rules.warmup_s
    well = counted & (found.kind == Kind.OK)
    late = counted & (found.ready_s - found.scheduled_s > LATE_S)
    return Events(
        float(found.output_tokens[well].sum()) / length_s,
        point.lateness_p99_s,
        int(counted.sum()),
        int(late.sum()),
        busy,
        point.outcomes,
    )


def main() -> int:
    """Print what was measured; exit code 1 where a limit was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="of each measurement")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.8], help="of the queue")
    given = parser.parse_args()
    missed = 0
    with server("--service", f"deterministic:{SERVICE_S}") as url:
        for load in given.loads:
            for one in queue(url, load, given.seconds):
                missed += abs(one.off) > WITHIN
                print(
                    f"M/D/1 at load {one.load:g}, {one.name} of {one.requests:,} requests: "
                    f"{one.measured * 1e3:.2f} ms, path {one.path * 1e3:.2f} ms, closed form {one.exact * 1e3:.2f} ms, "
                    f"{one.off:+.2%}",
                    flush=True,
                )
    found = stall(8.0, 2.0, 2.0)
    missed += abs(found.ours / found.exact - 1) > WITHIN
    print(f"stall of 2 s: p99 {found.ours:.3f} s, exact {found.exact:.3f} s; control {found.control:.4f} s", flush=True)
    many = events(given.seconds)
    missed += many.lateness_p99_s > LATE_S
    print(f"events: {many.per_s:,.0f} a second, lateness p99 {many.lateness_p99_s * 1e3:.3f} ms, {many.outcomes}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
