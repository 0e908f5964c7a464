"""How often the Pareto front and the ranks of `aiperf analyze` are wrong, on made-up rows whose truth is known.

    python benchmarks/analysis_pareto.py --repeats 1000

Each of 20 true fronts has rows with a true time, an exact peak of memory and a true energy. A repeat makes up the
samples of a run: passes and rounds that all rows share, samples of their own, an error of the energy counter. Its rows
are placed as the analysis does. A point of the true front that is called DOMINATED is an error, so is a dominated point
that is called FRONT, and a true rank outside the range of ranks. Undecided points are no errors; the table has their
share.
"""

import argparse
import math

import numpy as np
from attrs import define

from aiperf_analysis import joint
from aiperf_analysis.analyses import pareto
from aiperf_core.measurements import Estimate
from aiperf_core.stats.distributions import NORMAL
from aiperf_core.stats.intervals import Blocks, joint_medians

FLOOR = 0.01
FRONTS = 20
# The relative spread of a pass, of a round, and of the energy counter's error.
NOISES = {"quiet": (0.005, 0.0, 0.005), "usual": (0.02, 0.005, 0.02), "busy": (0.08, 0.03, 0.05)}
PASSES, LENGTH, ROUNDS = 12, 4, 3


@define
class Counts:
    """What the repeats of a noise level found, in points."""

    front: int = 0
    lost: int = 0
    dominated: int = 0
    kept: int = 0
    undecided: int = 0
    ranked: int = 0
    misranked: int = 0
    width: int = 0


def truth(front: int) -> np.ndarray:
    """The true figures of a front's rows: (rows, 3), time, memory and energy. Some rows nearly tie."""
    rng = np.random.default_rng(front)
    rows = int(rng.integers(4, 9))
    times = 1e-3 * np.cumprod(1 + rng.choice([0.004, 0.015, 0.04, 0.2], rows))
    memory = 2.0 ** rng.integers(20, 24, rows)
    energy = times * rng.uniform(200, 400) * (1 + rng.choice([-0.2, -0.01, 0.0, 0.01, 0.3], rows))
    return np.stack([times, memory, energy], axis=1)


def front_of(true: np.ndarray) -> np.ndarray:
    """Whether each row is dominated by no other, beyond the floor of times and energies."""
    floor = np.array([FLOOR, 0.0, FLOOR])
    beaten = [any(pareto.dominates(one, row, floor) for one in true if one is not row) for row in true]
    return ~np.array(beaten)


def run(true: np.ndarray, noise: tuple[float, float, float], rng: np.random.Generator, draws: int) -> np.ndarray:
    """Joint draws of the figures of a made-up run: (draws, rows, 3)."""
    of_pass, of_round, of_counter = noise
    rounds = np.repeat(np.arange(ROUNDS), PASSES // ROUNDS)
    common = rng.lognormal(0, of_pass, PASSES) * rng.lognormal(0, of_round, ROUNDS)[rounds]
    numbers = np.repeat(np.arange(PASSES), LENGTH)
    sides = []
    for time in true[:, 0]:
        level = time * common * rng.lognormal(0, of_round / 4, ROUNDS)[rounds] * rng.lognormal(0, of_pass / 4, PASSES)
        taken = level[:, None] * rng.lognormal(0, of_pass / 2, (PASSES, LENGTH))
        sides.append(Blocks.of(list(taken.ravel()), list(numbers), list(rounds[numbers])))
    found = np.empty((draws, len(true), 3))
    found[:, :, 0] = joint_medians(sides, draws, int(rng.integers(1 << 31)))
    found[:, :, 1] = true[:, 1]
    wide = NORMAL * math.sqrt(2) * of_counter
    for place, energy in enumerate(true[:, 2]):
        seen = energy * rng.lognormal(0, of_counter)
        found[:, place, 2] = joint.lognormal(Estimate(seen, seen * math.exp(-wide), seen * math.exp(wide)), rng, draws)
    return found


def simulate(noise: tuple[float, float, float], repeats: int, draws: int) -> Counts:
    """Run every front `repeats` times at a noise level."""
    counts = Counts()
    for number in range(FRONTS):
        true = truth(number)
        on_front = front_of(true)
        positions = np.argsort(np.argsort(true[:, 0])) + 1
        floors = np.tile([FLOOR, 0.0, FLOOR], (len(true), 1))
        rng = np.random.default_rng(10_000 + number)
        for _ in range(repeats):
            found = run(true, noise, rng, draws)
            standings = [one.kind for one in pareto.standings(found, floors)]
            for kind, is_front in zip(standings, on_front, strict=True):
                counts.front += bool(is_front)
                counts.dominated += not is_front
                counts.lost += bool(is_front) and kind == pareto.DOMINATED
                counts.kept += not is_front and kind == pareto.FRONT
                counts.undecided += kind == pareto.UNDECIDED
            for (best, worst), position in zip(joint.ranks(1 / found[:, :, 0]), positions, strict=True):
                counts.ranked += 1
                counts.misranked += not best <= position <= worst
                counts.width += worst - best
    return counts


def main() -> None:
    """Print a line for each noise level."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50, help="runs of each front at each noise level")
    parser.add_argument("--draws", type=int, default=400, help="joint draws of a run")
    given = parser.parse_args()
    heads = (
        "noise",
        "runs",
        "front called DOMINATED",
        "dominated called FRONT",
        "UNDECIDED",
        "wrong rank",
        "rank range",
    )
    print("| " + " | ".join(heads) + " |")
    print("| " + " | ".join("---" for _ in heads) + " |")
    for name, noise in NOISES.items():
        one = simulate(noise, given.repeats, given.draws)
        cells = (
            name,
            f"{FRONTS * given.repeats:,}",
            f"{one.lost / one.front:.2%}",
            f"{one.kept / one.dominated:.2%}",
            f"{one.undecided / (one.front + one.dominated):.1%}",
            f"{one.misranked / one.ranked:.2%}",
            f"{one.width / one.ranked:.2f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
