"""Threshold: the bound of a figure. Goals, expectations and performance targets are thresholds of different sources.

The interval decides: on the good side of the bound it is MET, on the other MISSED, and UNCLEAR where it contains the
bound, so that a repeated run may end otherwise.
"""

from typing import Any

from attrs import frozen

from aiperf_core.measurements import Estimate

MET, MISSED, UNCLEAR, NOT_MEASURED = OUTCOMES = ("MET", "MISSED", "UNCLEAR", "NOT MEASURED")


@frozen
class Threshold:
    """The bound of a figure of a row.

    target: a target or a pattern of names; empty for a figure of the machine.
    row: the implementation; empty for the best variant.
    metric: the key of a metric, the figure of a goal, or a ceiling of the machine.
    bound: the least value, or with `at_most` the largest.
    hardware: a kind of machine, of device, or a pattern.
    source: where the bound comes from.
    """

    target: str
    row: str
    metric: str
    bound: float
    at_most: bool = False
    hardware: str = "*"
    source: str = ""

    @property
    def direction(self) -> str:
        """`at least` or `at most`."""
        return "at most" if self.at_most else "at least"

    def judge(self, figure: Any) -> str:
        """The outcome of a figure, which has `value`, `low` and `high`. Without ends it is its own interval."""
        if figure is None or figure.value is None:
            return NOT_MEASURED
        low, high = (figure.value if end is None else end for end in (figure.low, figure.high))
        worst, best, bound = (-high, -low, -self.bound) if self.at_most else (low, high, self.bound)
        return MET if worst >= bound else MISSED if best < bound else UNCLEAR


@frozen
class Judgement:
    """A figure beside its threshold.

    name: of the row, as `target:implementation`.
    threshold: None where there is none.
    figure: None where it was not measured or is not believed.
    outcome: one of `OUTCOMES`, or why the threshold does not apply.
    reason: why there is no figure, or what limits the outcome.
    """

    name: str
    threshold: Threshold | None
    figure: Estimate | None
    outcome: str
    reason: str | None = None
