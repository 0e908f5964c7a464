"""The best variant of a target, by the figure of a goal."""

from collections.abc import Iterable

from aiperf_core.results.models import Row, TargetResult, Verdict


def best_variant(result: TargetResult) -> Row | None:
    """The best variant by the target's own goal; None where no variant is believed."""
    return best_of(result.rows, result.goal)


def best_of(rows: Iterable[Row], goal: str) -> Row | None:
    """The believed variant with the best figure: memory gain for the goal `memory`, else speedup.

    A proven gain (FASTER, SMALLER) is better than a higher figure without one. A row without the figure is last. Rows
    without speedups, as where the baseline failed, are in the order of their times.
    """
    believed = [row for row in rows if row.role == "variant" and row.is_believed]
    return max(believed, key=lambda row: _rank(row, goal), default=None)


def best_gain(result: TargetResult) -> Row | None:
    """The best variant where its gain is proven; None where no variant is FASTER or SMALLER."""
    best = best_variant(result)
    return best if best is not None and best.verdict is _proven(result.goal) else None


def _proven(goal: str) -> Verdict:
    return Verdict.SMALLER if goal == "memory" else Verdict.FASTER


def _rank(row: Row, goal: str) -> tuple[bool, float, float]:
    gain: float | None
    cost: float | None
    if goal == "memory":
        gain, cost = row.memory_gain, row.memory.most_bytes if row.memory else None
    else:
        gain, cost = row.speedup.value if row.speedup else None, row.time_s.value if row.time_s else None
    return row.verdict is _proven(goal), gain or 0.0, -(cost or float("inf"))
