"""Joint draws of the figures of several rows: what a repeated run might find, with what the rows have in common.

Rows of one target of one bundle share the draws of their passes, where the samples are there. Other rows are drawn
independently, from log-normal distributions with the width of their intervals.
"""

from collections.abc import Sequence

import numpy as np

from aiperf_analysis.selection import Entry
from aiperf_core.measurements import Estimate
from aiperf_core.report.metrics import half_width
from aiperf_core.stats.distributions import NORMAL
from aiperf_core.stats.draws import DRAWS, Floats, ends, log_draws
from aiperf_core.stats.intervals import joint_medians

SHARED = "rows of one target of one bundle share the draws of the bootstrap; rows of different bundles are independent"


def times(entries: Sequence[Entry], draws: int = DRAWS, seed: int = 0) -> Floats:
    """Draws of the times of rows in seconds: `(draws, rows)`. A row without a time raises ValueError."""
    rng = np.random.default_rng(seed)
    found = np.empty((draws, len(entries)))
    groups: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(entries):
        groups.setdefault((one.run.id, one.result.target), []).append(place)
    for number, places in enumerate(groups.values()):
        shared = _shared([entries[place] for place in places], draws, seed + number)
        for column, place in enumerate(places):
            estimate = entries[place].row.time_s
            if estimate is None:
                raise ValueError(f"{entries[place].name} has no time")
            if shared is None:
                found[:, place] = lognormal(estimate, rng, draws)
            else:
                # Around the stored median, which is the figure that is shown.
                found[:, place] = shared[:, column] * estimate.value
    return found


def _shared(entries: Sequence[Entry], draws: int, seed: int) -> Floats | None:
    """Draws of the relative deviations of rows of one target; None where they have no samples in common."""
    sides = [one.blocks() for one in entries]
    present = [side for side in sides if side is not None]
    if len(present) < len(sides):
        return None
    found = joint_medians(present, draws, seed)
    return None if found is None else found / [float(np.median(side.times)) for side in present]


def lognormal(estimate: Estimate, rng: np.random.Generator, draws: int) -> Floats:
    """Draws of a figure whose 95 % interval is that of a repeated run."""
    found: Floats = np.exp(log_draws([estimate.value], [half_width(estimate) / NORMAL], rng, draws)[:, 0])
    return found


def ranks(scores: Floats) -> list[tuple[int, int]]:
    """The best and the worst position of each column in 95 % of the draws, from 1; the highest score is the first.

    scores: (draws, columns).
    """
    order = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) + 1
    low, high = ends(order, "nearest")
    return [(int(best), int(worst)) for best, worst in zip(low, high, strict=True)]
