"""Check the intervals of fitted laws of scaling on simulated runs of known truth.

    python benchmarks/analysis_scaling.py --repeats 1000

Each scenario simulates the samples of every point of a curve and fits the true law. The shares are those of the 95 %
intervals that contain the truth. `samples`: draws from the samples, as where the bundle is there. `intervals`: draws
from the log-normal of the stored intervals, as where the samples are gone. `chosen` is the share of repeats in which
AICc chooses the true law.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen

from aiperf_analysis.models import laws
from aiperf_analysis.models.curve import Curve
from aiperf_analysis.models.draws import sample_draws
from aiperf_analysis.models.pieces import pieces
from aiperf_core.measurements import Estimate
from aiperf_core.stats.intervals import Blocks, median_interval

RANKS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SIZES = (1e3, 1e4, 1e5, 1e6, 1e7)


@frozen
class Noise:
    """The noise of samples, as a part of the time.

    between: the deviation of a round.
    """

    name: str
    noise: float = 0.02
    between: float = 0.0
    rounds: int = 1


@frozen
class Scenario:
    """A truth. truth: the parameters to be found. time: seconds by rank or size."""

    name: str
    law: str
    truth: dict[str, float]
    time: Callable[[float], float]
    at: Sequence[float] = RANKS


def usl(sigma: float, kappa: float) -> Callable[[float], float]:
    """The times of the universal scalability law."""
    return lambda n: 1e-3 * (1 + sigma * (n - 1) + kappa * n * (n - 1)) / n


NOISES = (
    Noise("white 2 %"),
    Noise("2 %, 10 rounds that differ by 0.5 %", between=0.005, rounds=10),
    Noise("2 %, 3 rounds that differ by 0.5 %", between=0.005, rounds=3),
)
SCENARIOS = (
    Scenario("Amdahl, s = 0.05", laws.AMDAHL, {"s": 0.05}, usl(0.05, 0)),
    Scenario("Amdahl, s = 0.3", laws.AMDAHL, {"s": 0.3}, usl(0.3, 0)),
    Scenario("Gustafson, s = 0.2", laws.GUSTAFSON, {"s": 0.2}, lambda n: 1e-3 / (1 - 0.2 * (n - 1) / n)),
    Scenario("USL, 0.05 and 0.001", laws.USL, {"sigma": 0.05, "kappa": 0.001}, usl(0.05, 0.001)),
    Scenario("USL, 0.2 and 0.01", laws.USL, {"sigma": 0.2, "kappa": 0.01}, usl(0.2, 0.01)),
    Scenario("t = n^1.5", "power", {"exponent": 1.5}, lambda n: 1e-9 * n**1.5, SIZES),
)


def simulated(noise: Noise, rng: np.random.Generator) -> Blocks:
    """The samples of a point whose true time is 1 s."""
    number = np.arange(64)
    rounds = number * noise.rounds // 64
    apart = rng.normal(0, noise.between, noise.rounds)[rounds]
    return Blocks(np.exp(apart + noise.noise * rng.standard_normal(64)), number, rounds)


def found(scenario: Scenario, curve: Curve) -> tuple[dict[str, tuple[float, float]], bool]:
    """The intervals of the parameters, and whether AICc chooses the law."""
    if scenario.law == "power":
        fitted = pieces(curve).pieces
        return {"exponent": (fitted[0].exponent.low, fitted[0].exponent.high)}, len(fitted) == 1
    weak = scenario.law == laws.GUSTAFSON
    fit = laws.fit(curve, scenario.law, weak=weak)
    ends = {name: (fit.parameters[name].low, fit.parameters[name].high) for name in scenario.truth}
    few = Curve(curve.at, curve.logs, curve.draws[:2], curve.errors, curve.floor)
    return ends, laws.fits(few, weak=weak)[0].law == scenario.law


Counts = dict[tuple[str, str], list[int]]


def check(noise: Noise, repeats: int, seed: int) -> Counts:
    """By scenario and parameter: intervals with the truth, from samples and from intervals, and right choices.

    Noise multiplies, so all scenarios share the simulated errors of a repeat.
    """
    rng = np.random.default_rng(seed)
    counts: Counts = {(one.name, name): [0, 0, 0] for one in SCENARIOS for name in one.truth}
    for repeat in range(repeats):
        points = [simulated(noise, rng) for _ in RANKS]
        units = [median_interval(one) for one in points]
        errors = [sample_draws(one, seed=100 * repeat + index) for index, one in enumerate(points)]
        for scenario in SCENARIOS:
            times = [scenario.time(at) for at in scenario.at]
            pairs = list(zip(units, times, strict=False))
            estimates = [Estimate(one.value * by, one.low * by, one.high * by) for one, by in pairs]
            sampled = [error + np.log(by) for error, by in zip(errors, times, strict=False)]
            for column, draws in enumerate((sampled, ())):
                ends, right = found(
                    scenario, Curve.of(scenario.at, estimates, sampled=draws, rounds=[noise.rounds] * len(times))
                )
                for name, truth in scenario.truth.items():
                    counts[scenario.name, name][column] += ends[name][0] <= truth <= ends[name][1]
                    counts[scenario.name, name][2] += right and column == 0
    return counts


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    began = time.monotonic()
    print(f"| {repeats} repeats | noise | parameter | samples, % | intervals, % | chosen, % |")
    print("| --- | --- | --- | --: | --: | --: |")
    for seed, noise in enumerate(NOISES):
        for (scenario, name), counts in check(noise, repeats, seed).items():
            shares = " | ".join(f"{100 * count / repeats:.1f}" for count in counts)
            print(f"| {scenario} | {noise.name} | {name} | {shares} |", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
