"""Combinations that were not measured, estimated from those that were."""

import math
from collections.abc import Sequence

from aiperf_analysis.analyses.stacks import NO_SAMPLES, NOT_MEASURED, Stack, said
from aiperf_analysis.models import factorial
from aiperf_analysis.models.factorial import NOTHING, Combination
from aiperf_core.report.result import Column, Figure, Record, Table, counted


def estimates(stacks: Sequence[Stack]) -> Table:
    """The table of the unions of two measured combinations that were not measured, each as a range or refused."""
    columns = [
        Column("target", "target"),
        Column("combination", "combination"),
        Column("verdict", "status", "verdict"),
        Column("gain", "gain over the baseline", "figure"),
        Column("error", "largest error when left out", "figure"),
        Column("held_out", "left out", "figure"),
    ]
    records = []
    for stack in stacks:
        for cell in _unmeasured_cells(stack):
            gain, error, count = _estimated(stack, cell)
            records.append(
                Record(
                    {
                        "target": stack.name,
                        "combination": said(cell),
                        "verdict": "ESTIMATE" if gain.value is not None else NOT_MEASURED,
                        "gain": gain,
                        "error": error,
                        "held_out": counted(count, "count"),
                    },
                    stack.origins(stack.entries),
                )
            )
    return Table("estimates", "ESTIMATE: combinations that were not measured", columns, records)


def _unmeasured_cells(stack: Stack) -> list[Combination]:
    """The unions of two measured combinations that were not measured, and did not fail."""
    known = [cell for cell in stack.entries if cell]
    unions = {one | other for one in known for other in known} - stack.entries.keys() - stack.ended.keys()
    return sorted(unions, key=lambda one: (len(one), sorted(one)))


def _estimated(stack: Stack, cell: Combination) -> tuple[Figure, Figure, int]:
    """The gain of a combination over the baseline, the largest error of such estimates, and their number."""

    def refused(reason: str, count: int = 0) -> tuple[Figure, Figure, int]:
        none = Figure(value=None, certainty="estimated", reason=reason)
        return none, none, count

    logs = {
        one: math.log(entry.row.time_s.value) for one, entry in stack.entries.items() if entry.row.time_s is not None
    }
    weights = factorial.estimator(list(logs), cell) if NOTHING in logs else None
    if weights is None:
        return refused("the measured combinations do not determine it: a mechanism was never measured apart")
    errors = factorial.held_out_errors(logs)
    if not errors:
        return refused("no measured combination follows from the others, so the error of an estimate is unknown")
    # The gain is t(0) / t(cell), and t(cell) is predicted by the weights.
    contrast = {one: -weight for one, weight in weights.items()}
    contrast[NOTHING] = contrast.get(NOTHING, 0.0) + 1.0
    found = stack.contrast({one: weight for one, weight in contrast.items() if abs(weight) > 1e-9})
    if found is None:
        return refused(NO_SAMPLES, len(errors))
    worst = max(abs(one) for one in errors.values())
    wide = Figure(value=found.value, low=found.low * math.exp(-worst), high=found.high * math.exp(worst),
                  certainty="estimated")  # fmt: skip
    return wide, Figure(value=100 * math.expm1(worst), unit="%", certainty="counted"), len(errors)
