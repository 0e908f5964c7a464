"""Grades of a prediction by the result of a run."""

from attrs import frozen

from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.stats.expectations import figure

_BASELINE = Estimate(1.0, 1.0, 1.0)


@frozen
class Truth:
    """The part of a result that a prediction is graded by.

    best: the implementations that count as the best: those that cannot be told apart from the highest gain. Empty where
        the run did not decide it for the predicted one.
    gain: the gain of the predicted implementation; None for the baseline, and where it was not decided.
    reason: why something was not decided; empty where all was.
    """

    best: list[str]
    gain: Estimate | None
    reason: str = ""


def truth(result: TargetResult, implementation: str) -> Truth:
    """Grounds for grading the prediction that an implementation of a result is the best.

    Rows that are not believed, and INCONCLUSIVE ones, decide nothing. Two gains cannot be told apart where their
    intervals overlap, or are no further apart than the difference that matters in a verdict.
    """
    rows = [row for row in result.rows if row.role in ("baseline", "variant")]
    gains = {row.name: gain for row in rows if (gain := _decided(result, row)) is not None}
    if implementation not in gains:
        row = next((row for row in rows if row.name == implementation), None)
        return Truth([], None, f"{implementation} {_why_open(result, row)}")
    own = gains[implementation]
    top = max(gains.values(), key=lambda gain: gain.value)
    best = [name for name, gain in gains.items() if gain.high * (1 + result.floor) >= top.low]
    gain = None if own is _BASELINE else own
    above = [row.name for row in rows if row.name not in gains and _may_exceed(result, row, top)]
    if implementation in best and above:
        return Truth([], gain, f"{', '.join(above)} may be better, and this run did not decide it")
    return Truth(best, gain)


def _decided(result: TargetResult, row: Row) -> Estimate | None:
    """The gain of a row; None where the run did not decide it."""
    if row.role == "baseline":
        return _BASELINE if row.is_believed else None
    return None if row.verdict is Verdict.INCONCLUSIVE else figure(result, row)


def _may_exceed(result: TargetResult, row: Row, top: Estimate) -> bool:
    """Tell whether an INCONCLUSIVE row lies above all gains that were decided."""
    gain = figure(result, row)
    return gain is not None and gain.low > top.high


def _why_open(result: TargetResult, row: Row | None) -> str:
    if row is None:
        return "has no row in the result"
    if not row.is_believed:
        return f"is {row.verdict.value}: {row.reason or 'no reason was recorded'}"
    gain = figure(result, row)
    shown = f", with {gain.low:.3g} to {gain.high:.3g}x" if gain else ""
    return f"is {row.verdict.value}{shown}"
