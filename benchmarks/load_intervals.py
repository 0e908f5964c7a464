"""How often the intervals of `aiperf load` hold the true percentile, on simulated queues whose truth is known.

    python benchmarks/load_intervals.py --repeats 400 --out benchmarks/figures/load-intervals.json

Each repeat simulates the times of requests in an M/D/1 or M/M/1 queue, which depend on each other, the more the higher
the load. The table has for each percentile: how often the interval holds the true value, an open high end included; how
often the high end is given; and how often an interval with both ends holds it. The last is lower where the high end is
seldom given: it is given in the repeats that saw few long times.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from attrs import asdict, define

from aiperf_load import intervals, queueing

LOADS = (0.3, 0.6, 0.8)
REQUESTS = (1000, 5000, 20000)
SERVICE_S = 0.01
# Of the measured times, as coarse as a clock.
RESOLUTION = 12


@define
class Coverage:
    """What the repeats of a percentile found."""

    queue: str
    load: float
    requests: int
    percentile: str
    repeats: int = 0
    held: int = 0
    closed: int = 0
    closed_held: int = 0
    widths: float = 0.0

    def add(self, figure: intervals.Figure, truth: float) -> None:
        """Count an interval."""
        assert figure.value is not None
        assert figure.low is not None
        # The truth is the result of a search, so that it may be off in the last digits where values tie.
        held = figure.low * (1 - 1e-9) <= truth and (figure.high is None or truth <= figure.high * (1 + 1e-9))
        self.repeats += 1
        self.held += held
        if figure.high is not None:
            self.closed += 1
            self.closed_held += held
            self.widths += (figure.high - figure.low) / figure.value


def measure(queue: str, load: float, requests: int, repeats: int) -> list[Coverage]:
    """The coverage of each percentile that this number of requests can have."""
    exact = queueing.markov if queue == "M/M/1" else queueing.deterministic
    rate = load / SERVICE_S
    truth = {name: exact(rate, SERVICE_S, share) for name, share in intervals.PERCENTILES.items()}
    found: dict[str, Coverage] = {}
    for repeat in range(repeats):
        rng = np.random.default_rng([repeat, requests])
        times = queueing.simulated(rng, rate, SERVICE_S, requests, exponential=queue == "M/M/1")
        for name, figure in intervals.percentiles(times.round(RESOLUTION)).items():
            if figure.value is not None:
                found.setdefault(name, Coverage(queue, load, requests, name)).add(figure, truth[name])
    return list(found.values())


HEADS = ("queue", "load", "requests", "percentile", "holds", "high end given", "holds, both ends given", "mean width")


def line(one: Coverage) -> tuple[str, ...]:
    """The cells of a percentile."""
    given = one.closed / one.repeats
    return (
        one.queue, f"{one.load:g}", f"{one.requests:,}", one.percentile, f"{one.held / one.repeats:.1%}",
        f"{given:.0%}", f"{one.closed_held / one.closed:.1%}" if one.closed else "-",
        f"{one.widths / one.closed:.1%}" if one.closed else "-",
    )  # fmt: skip


def page_table(found: Sequence[Coverage], requests: int) -> str:
    """The table of the documentation, in percent: how often intervals hold, and how often their high end is given."""
    names = [
        name
        for name in intervals.PERCENTILES
        if any((one.percentile, one.requests) == (name, requests) for one in found)
    ]
    lines = [f"| queue, {requests:,} requests | load | {' | '.join(names)} |", "| --- | --: |" + " --: |" * len(names)]
    for queue in ("M/D/1", "M/M/1"):
        for load in LOADS:
            of = {
                one.percentile: one for one in found if (one.queue, one.load, one.requests) == (queue, load, requests)
            }
            cells = [
                f"{100 * of[name].held / of[name].repeats:.1f} ({100 * of[name].closed / of[name].repeats:.0f})"
                for name in names
            ]
            lines.append(f"| {queue} | {load:g} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=100, help="simulated measurements of each queue")
    parser.add_argument("--requests", type=int, nargs="+", default=REQUESTS, help="of a measurement")
    parser.add_argument("--out", type=Path, help="a file for the counts, as JSON")
    given = parser.parse_args()
    print("| " + " | ".join(HEADS) + " |")
    print("| " + " | ".join("---" for _ in HEADS) + " |")
    found: list[Coverage] = []
    for queue in ("M/D/1", "M/M/1"):
        for load in LOADS:
            for requests in given.requests:
                for one in measure(queue, load, requests, given.repeats):
                    found.append(one)
                    print("| " + " | ".join(line(one)) + " |", flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
