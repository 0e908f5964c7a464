"""A run that was repeated, beside the first, as a result."""

from collections import Counter
from collections.abc import Iterator

from aiperf_core.report.comparison import difference_table
from aiperf_core.report.result import Cell, Column, Record, Result, Table, figure
from aiperf_core.results.models import Row
from aiperf_core.stats.reproduce import Outcome, Reproduced, Reproduction
from aiperf_core.units import ratio_estimate


def view(found: Reproduction, then: str, now: str, *, strict: bool) -> Result:
    """Differences between the runs, then each row with its times, its verdicts and the outcome."""
    columns = [
        Column("target", "target"),
        Column("row", "implementation"),
        Column("then", "then", "figure"),
        Column("now", "now", "figure"),
        Column("ratio", "ratio", "figure"),
        Column("verdict_then", "verdict then", "verdict"),
        Column("verdict_now", "verdict now", "verdict"),
        Column("outcome", "outcome", "verdict"),
        Column("why", "why"),
    ]
    differences = [difference_table(found.differences, "then", "now")] if found.differences else []
    records = [Record(_cells(row)) for row in found.rows]
    return Result(
        analysis="reproduce",
        title=f"{then} (then) and {now} (now)",
        summary=list(_summary(found, strict)),
        tables=[*differences, Table("rows", "Verdicts", columns, records)],
    )


def _summary(found: Reproduction, strict: bool) -> Iterator[str]:
    counts = Counter(row.outcome for row in found.rows)
    text = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    yield (text or "nothing was reproduced") + (" (--strict)" if strict else "")
    if found.other_machine:
        yield "ANOTHER KIND OF MACHINE: times will differ, and verdicts need not hold"
    if not found.differences:
        yield "machine, software, sources and options are the same"


def _cells(row: Reproduced) -> dict[str, Cell]:
    compared = row.compared
    sides = {"then": compared.left, "now": compared.right}
    return {
        "target": compared.target,
        "row": compared.implementation,
        **{name: figure(side.time_s, "s") if side and side.time_s else None for name, side in sides.items()},
        "ratio": figure(compared.ratio) if compared.ratio else None,
        **{f"verdict_{name}": _verdict(side) for name, side in sides.items()},
        "outcome": row.outcome.value,
        "why": compared.reason,
    }


def _verdict(row: Row | None) -> str | None:
    """The verdict with the speedup that it is about."""
    if row is None:
        return None
    return f"{row.verdict.value} {ratio_estimate(row.speedup).value}" if row.speedup else row.verdict.value
