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
    return best if best is not None and is_proven_gain(best, result.goal) else None


def is_proven_gain(row: Row, goal: str) -> bool:
    """Whether a row is FASTER than the baseline, or SMALLER where memory is the goal."""
    return _is_proven(row.verdict, goal)


def rank(verdict: Verdict, goal: str, gain: float | None, cost: float | None) -> tuple[bool, float, float]:
    """The place of a believed variant among those of its target; the best has the largest.

    gain: its figure of the goal; `cost` the time or the memory that it takes.
    """
    return _is_proven(verdict, goal), gain or 0.0, -(cost or float("inf"))


def _is_proven(verdict: Verdict, goal: str) -> bool:
    return verdict is (Verdict.SMALLER if goal == "memory" else Verdict.FASTER)


def _rank(row: Row, goal: str) -> tuple[bool, float, float]:
    gain: float | None
    cost: float | None
    if goal == "memory":
        gain, cost = row.memory_gain, row.memory.most_bytes if row.memory else None
    else:
        gain, cost = row.speedup.value if row.speedup else None, row.time_s.value if row.time_s else None
    return rank(row.verdict, goal, gain, cost)
