"""Check the intervals of interactions on simulated runs of known truth.

    python benchmarks/analysis_stacking.py --repeats 1000

Each scenario simulates runs of a 2x2 factorial: samples of four implementations that take turns, with noise, drift that
all four share, and differences between rounds. `repeat` is the share of intervals of g that contain the g of the next
simulated run, which is what an interval promises (95 %). `truth` is the share that contain the true g. `wrong` is the
share of verdicts that contradict the truth, `open` that of INCONCLUSIVE. The last scenario has three mechanisms that
all multiply: `wrong` is the share of runs with a false interaction among its three pairs.
"""

import argparse
import math
import time

import numpy as np
from attrs import frozen

from aiperf_analysis.analyses.stacking import CONFLICT, INCONCLUSIVE, MULTIPLIES, OVERLAP, SYNERGY, verdict_of
from aiperf_analysis.models import factorial
from aiperf_analysis.models.draws import probability
from aiperf_core.stats.intervals import Blocks, log_contrast

FLOOR = 0.01


@frozen
class Scenario:
    """A truth and its noise.

    g: the gain of both over the product of the gains. gains: of each mechanism alone.
    noise: the deviation of a sample, as a part. drift: of a pass, shared by all rows. between: of a round of a row.
    """

    name: str
    g: float = 1.0
    gains: tuple[float, ...] = (2.0, 1.5)
    noise: float = 0.01
    drift: float = 0.0
    between: float = 0.0
    heavy: bool = False
    passes: int = 64
    rounds: int = 1


SCENARIOS = (
    Scenario("g = 1, white noise 1 %"),
    Scenario("g = 1, noise 1 %, shared drift 5 %", drift=0.05),
    Scenario("g = 1, heavy tails", heavy=True),
    Scenario("g = 1, 3 rounds that differ by 0.3 %", between=0.003, rounds=3),
    Scenario("g = 1.05, white noise 1 %", g=1.05),
    Scenario("g = 0.9, white noise 1 %", g=0.9),
    Scenario("g = 0.6, white noise 1 %", g=0.6),
    Scenario("three mechanisms, g = 1", gains=(2.0, 1.5, 1.2)),
)


def simulated(scenario: Scenario, rng: np.random.Generator) -> dict[frozenset[str], Blocks]:
    """The samples of a run, by combination."""
    names = "ABC"[: len(scenario.gains)]
    passes = scenario.passes
    shared = np.cumsum(rng.normal(0, scenario.drift / math.sqrt(passes), passes))
    number = np.arange(passes)
    rounds = number * scenario.rounds // passes
    found = {}
    for cell in factorial.subsets(names):
        log = -sum(math.log(gain) for name, gain in zip(names, scenario.gains, strict=True) if name in cell)
        if cell >= {"A", "B"}:
            log -= math.log(scenario.g)
        sizes = rng.standard_t(3, len(number)) if scenario.heavy else rng.standard_normal(len(number))
        apart = rng.normal(0, scenario.between, scenario.rounds)[rounds]
        times = 1e-3 * np.exp(log + shared + apart + scenario.noise * sizes)
        found[cell] = Blocks(times, number, rounds)
    return found


def true_verdict(scenario: Scenario) -> str:
    """The verdict of a run without noise."""
    if abs(scenario.g - 1) <= FLOOR:
        return MULTIPLIES
    if scenario.g > 1:
        return SYNERGY
    return OVERLAP if min(scenario.gains) * scenario.g > 1 else CONFLICT


def check(scenario: Scenario, repeats: int, seed: int) -> dict[str, float]:
    """The shares of a scenario over repeats."""
    rng = np.random.default_rng(seed)
    truth = true_verdict(scenario)
    counts = dict.fromkeys(("repeat", "truth", "wrong", "open"), 0)
    before = None
    for _ in range(repeats):
        cells = simulated(scenario, rng)
        [design] = factorial.designs(cells)

        def contrast(weights: factorial.Weights, cells: dict[frozenset[str], Blocks] = cells):
            return log_contrast([cells[cell] for cell in weights], list(weights.values()))

        together = [contrast(factorial.interaction(design, *pair)) for pair in design.pairs]
        chances = factorial.holm([probability(one) for one in together])
        verdicts = []
        for (first, second), one, chance in zip(design.pairs, together, chances, strict=True):
            better = None
            if one.high < 1 - FLOOR:  # else it decides nothing
                both = [contrast(factorial.added(design, *pair)) for pair in ((second, first), (first, second))]
                better = min(both, key=lambda each: each.value)
            verdicts.append(verdict_of(one, better, chance, FLOOR)[0])
        g = together[0]
        counts["truth"] += g.low <= scenario.g <= g.high
        counts["repeat"] += before is not None and before.low <= g.value <= before.high
        counts["wrong"] += any(one not in (truth, INCONCLUSIVE) for one in verdicts)
        counts["open"] += INCONCLUSIVE in verdicts
        before = g
    pairs = {name: repeats - 1 if name == "repeat" else repeats for name in counts}
    return {name: 100 * count / max(pairs[name], 1) for name, count in counts.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    began = time.monotonic()
    print(f"| {repeats} repeats | repeat, % | truth, % | wrong, % | open, % |")
    print("| --- | --: | --: | --: | --: |")
    for seed, scenario in enumerate(SCENARIOS):
        shares = check(scenario, repeats, seed)
        print(f"| {scenario.name} | {' | '.join(f'{share:.1f}' for share in shares.values())} |", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
