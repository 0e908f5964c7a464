"""How often the history is wrong: steps, drift and gates on simulated series whose truth is known.

    python benchmarks/analysis_history.py [--repeats 1000] [--jobs 2] [--out FILE.json]

False alarms: series without a step, of 30, 100 and 300 runs. Their noise is white, Student's t with 3 degrees of
freedom, a first-order autoregression of 0.5, or in two modes (a slow one with probability 0.3, four standard deviations
away). All have a standard deviation of 0.5 %. The floor is 0, so that the test alone decides. Wanted at 100 runs: a
step in at most 2 % of series (white, t3) or 5 % (autoregression, modes).

Steps: 10 runs on either side, 0.5 % of white noise, a floor of 0.5 %. Wanted: a step of 2 % found in 99 % and located
within one run in 90 %; a step of 1 % found in 85 %.

Gate: the decision after each run of a growing series, from 8 to 100 runs, at a floor of 0.5 %. Wanted: a false stop in
at most 1 of 1,000 runs. Beside it, how often a slowdown of 3 % after 20 runs stops at its second run.

A rate that is not as wanted, but whose 95 % interval (Wilson) holds what is wanted, is unclear. Ends with 1 where a
rate is NOT MET.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from attrs import asdict, frozen

from aiperf_analysis.history.changes import course
from aiperf_analysis.history.newest import newest
from aiperf_core import atomic
from aiperf_core.results import jsontext
from aiperf_core.stats.distributions import share_interval
from aiperf_core.stats.draws import Floats

SD = 0.005
WITHIN = 1e-6  # variance within a run: 0.1 % of standard error
FLOOR = 0.005
LENGTHS = (30, 100, 300)
SIDE = 10
GATE_FROM, GATE_TO = 8, 100
GATE_SERIES = 10  # repeats for a series of the gate


@frozen
class Rate:
    """A share of cases: what it is of, the count, and what is wanted (None: shown only)."""

    what: str
    hits: int
    cases: int
    most: float | None = None
    least: float | None = None

    @property
    def share(self) -> float:
        """The share of hits."""
        return self.hits / self.cases

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of Wilson, 95 %."""
        return share_interval(self.share, self.cases)

    @property
    def word(self) -> str:
        """Whether the rate is as wanted; `unclear` where it is not, but its interval holds what is wanted."""
        (low, high), share = self.interval, self.share
        if self.most is not None:
            return "met" if share <= self.most else "unclear" if low <= self.most else "NOT MET"
        if self.least is not None:
            return "met" if share >= self.least else "unclear" if high >= self.least else "NOT MET"
        return ""


def white(rng: np.random.Generator, runs: int) -> Floats:
    """Independent normal errors."""
    return SD * rng.standard_normal(runs)


def t3(rng: np.random.Generator, runs: int) -> Floats:
    """Independent errors with heavy tails."""
    return SD * rng.standard_t(3, runs) / math.sqrt(3)


def autoregression(rng: np.random.Generator, runs: int) -> Floats:
    """Errors that follow the one before by half."""
    errors = rng.standard_normal(runs) * math.sqrt(1 - 0.25)
    found = np.empty(runs)
    found[0] = rng.standard_normal()
    for place in range(1, runs):
        found[place] = 0.5 * found[place - 1] + errors[place]
    return SD * found


def modes(rng: np.random.Generator, runs: int) -> Floats:
    """A fast mode, and a slow one with probability 0.3, four standard deviations away."""
    found = (rng.random(runs) < 0.3) * 4.0 + rng.standard_normal(runs)
    return SD * (found - 1.2) / math.sqrt(1 + 16 * 0.21)


NOISES: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float]] = {
    "white": (white, 0.02),
    "t3": (t3, 0.02),
    "AR(1) 0.5": (autoregression, 0.05),
    "two modes": (modes, 0.05),
}
Case = tuple[str, str, int, float]


def quiet(case: Case, seeds: Iterable[int]) -> list[tuple[bool, bool]]:
    """Of series without a step: whether a step, and whether a drift, was found."""
    _, noise, runs, _ = case
    found = []
    for seed in seeds:
        values = NOISES[noise][0](np.random.default_rng((seed, runs)), runs)
        told = course(values, np.full(runs, WITHIN), 0.0, seed)
        found.append((bool(told.steps), told.drift is not None and not told.steps))
    return found


def step(case: Case, seeds: Iterable[int]) -> list[tuple[bool, bool, bool]]:
    """Of series with a step: whether it was found, located within one run, and its size within the interval."""
    size = case[3]
    found = []
    for seed in seeds:
        values = white(np.random.default_rng((seed, 77)), 2 * SIDE)
        values[SIDE:] += math.log1p(size)
        steps = course(values, np.full(2 * SIDE, WITHIN), FLOOR, seed).steps
        nearest = min(steps, key=lambda one: abs(one.at - SIDE), default=None)
        located = nearest is not None and abs(nearest.at - SIDE) <= 1
        covered = nearest is not None and nearest.ratio.low <= 1 + size <= nearest.ratio.high
        found.append((nearest is not None, located, covered))
    return found


def gate(case: Case, seeds: Iterable[int]) -> list[tuple[int, int, int]]:
    """Of growing series without a step: false stops, suspects and decisions of each."""
    noise = case[1]
    found = []
    for seed in seeds:
        values = NOISES[noise][0](np.random.default_rng((seed, 11)), GATE_TO)
        within = np.full(GATE_TO, WITHIN)
        told = [newest(values[:runs], within[:runs], FLOOR, "down").word for runs in range(GATE_FROM, GATE_TO + 1)]
        found.append((told.count("REGRESSION"), told.count("SUSPECT"), len(told)))
    return found


def power(case: Case, seeds: Iterable[int]) -> list[bool]:
    """Whether a slowdown stops at its second run."""
    _, noise, runs, size = case
    found = []
    for seed in seeds:
        values = NOISES[noise][0](np.random.default_rng((seed, 13)), runs + 2)
        values[runs:] += math.log1p(size)
        found.append(newest(values, np.full(runs + 2, WITHIN), FLOOR, "down").word == "REGRESSION")
    return found


def _chunk(job: tuple[Callable[[Case, Iterable[int]], list[object]], Case, range]) -> list[object]:
    work, case, seeds = job
    return work(case, seeds)


class Workers:
    """Processes that share the seeds of a case."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = ProcessPoolExecutor(jobs) if jobs > 1 else None

    def of(self, work: Callable[[Case, Iterable[int]], list[object]], case: Case, repeats: int) -> list[object]:
        """The findings of all seeds."""
        size = max(1, -(-repeats // (4 * self._jobs)))
        chunks = [(work, case, range(first, min(first + size, repeats))) for first in range(0, repeats, size)]
        done = self._pool.map(_chunk, chunks) if self._pool else map(_chunk, chunks)
        return [one for part in done for one in part]


def rates(repeats: int, workers: Workers) -> Iterator[Rate]:
    """All rates, one after the other."""
    for noise, (_, most) in NOISES.items():
        for runs in LENGTHS:
            found = workers.of(quiet, ("quiet", noise, runs, 0.0), repeats)  # type: ignore[arg-type]
            wanted = most if runs == 100 else None
            yield Rate(f"false step, {noise}, {runs} runs", sum(one[0] for one in found), repeats, wanted)  # type: ignore[index]
            yield Rate(f"false drift, {noise}, {runs} runs", sum(one[1] for one in found), repeats)  # type: ignore[index]
    for size, least in ((0.02, 0.99), (0.01, 0.85)):
        steps = workers.of(step, ("step", "white", 2 * SIDE, size), repeats)  # type: ignore[arg-type]
        hits = sum(one[0] for one in steps)  # type: ignore[index]
        yield Rate(f"step of {size:.0%} found", hits, repeats, least=least)
        yield Rate(
            f"step of {size:.0%} located within 1 run",
            sum(one[1] for one in steps),  # type: ignore[index]
            repeats,
            least=0.90 if size == 0.02 else None,
        )
        yield Rate(f"step of {size:.0%}: size within the interval", sum(one[2] for one in steps), max(1, hits))  # type: ignore[index]
    for noise in NOISES:
        gates = workers.of(gate, ("gate", noise, 0, 0.0), max(1, repeats // GATE_SERIES))  # type: ignore[arg-type]
        decisions = sum(one[2] for one in gates)  # type: ignore[index]
        yield Rate(f"gate: false stop, {noise}", sum(one[0] for one in gates), decisions, 0.001)  # type: ignore[index]
        yield Rate(f"gate: suspect, {noise}", sum(one[1] for one in gates), decisions)  # type: ignore[index]
    for noise in NOISES:
        stopped = workers.of(power, ("power", noise, 20, 0.03), repeats)  # type: ignore[arg-type]
        yield Rate(f"gate: slowdown of 3 % stopped, {noise}", sum(map(bool, stopped)), repeats)


def line(rate: Rate) -> str:
    """A line of the table."""
    low, high = rate.interval
    wanted = f"<= {rate.most:.1%}" if rate.most is not None else f">= {rate.least:.0%}" if rate.least else ""
    interval = f"[{low:.2%}, {high:.2%}]"
    return f"{rate.what:44}{rate.share:>9.2%}  {interval:18}{rate.cases:>8,}  {wanted:>8}  {rate.word}".rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000, help="series of each kind (1000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--out", type=Path, help="write the rates there as JSON")
    asked = parser.parse_args(arguments)
    if asked.repeats < 1 or asked.jobs < 1:
        parser.error("--repeats and --jobs take a whole number of at least 1")
    print(f"{'rate':44}{'share':>9}  {'95 % interval':18}{'cases':>8}  {'wanted':>8}", flush=True)
    found = []
    for rate in rates(asked.repeats, Workers(asked.jobs)):
        found.append(rate)
        print(line(rate), flush=True)
    if asked.out:
        document = [{**asdict(one), "share": one.share, "interval": list(one.interval)} for one in found]
        atomic.write(asked.out, jsontext.dumps({"repeats": asked.repeats, "rates": document}).encode())
    return int(any(one.word == "NOT MET" for one in found))


if __name__ == "__main__":
    sys.exit(main())
