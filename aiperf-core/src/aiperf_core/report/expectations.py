"""A run beside its stored expectations as a result."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from aiperf_core.report.result import Column, Record, Result, Table, counted, figure
from aiperf_core.stats.threshold import MISSED, OUTCOMES, Judgement
from aiperf_core.units import plural

# Outcomes of variants of which nothing is expected.
UNEXPECTED = ("NEW", "OTHER SIZE")
# The outcome of a variant that was stored without a threshold, since its speedup was not significant.
NO_THRESHOLD = "NO THRESHOLD"


@frozen
class JudgedPage:
    """The rows that an expectations file is for. `judgements` is null where there is no such file."""

    hardware: str
    path: Path
    judgements: Sequence[Judgement] | None


def view(bundle: str, pages: Sequence[JudgedPage], unknown: int) -> Result:
    """A table for each expectations file. `unknown` variants have no file."""
    every = [judgement for page in pages for judgement in page.judgements or ()]
    missing = [
        f"no expectations for '{page.hardware}' ({page.path}). To store them: aiperf expectations write"
        for page in pages
        if page.judgements is None
    ]
    return Result(
        analysis="expectations",
        title=f"Expectations for {bundle}",
        summary=[_counts(every, unknown), *missing],
        status="regression" if any(judgement.outcome == MISSED for judgement in every) else "ok",
        tables=[_table(page, page.judgements) for page in pages if page.judgements is not None],
    )


def _counts(judgements: Sequence[Judgement], unknown: int) -> str:
    """The numbers of variants with and without a threshold."""
    outcomes = Counter(judgement.outcome for judgement in judgements)
    checked = sum(outcomes[outcome] for outcome in OUTCOMES)
    without = unknown + sum(outcomes[outcome] for outcome in (*UNEXPECTED, NO_THRESHOLD))
    skipped = f", {outcomes['SKIPPED']} skipped" if outcomes["SKIPPED"] else ""
    return (
        f"{plural('variant', checked)} checked ({outcomes[MISSED]} below the threshold), {without} without a "
        f"threshold{skipped}"
    )


def _table(page: JudgedPage, judgements: Sequence[Judgement]) -> Table:
    columns = [
        Column("implementation", "implementation"),
        Column("at_least", "at least", "figure"),
        Column("found", "found", "figure"),
        Column("outcome", "outcome", "verdict"),
        Column("reason", "reason"),
    ]
    records = [
        Record(
            {
                "implementation": judgement.name,
                "at_least": counted(judgement.threshold.bound) if judgement.threshold else None,
                "found": figure(judgement.figure) if judgement.figure else None,
                "outcome": judgement.outcome,
                "reason": judgement.reason,
            }
        )
        for judgement in judgements
    ]
    return Table(page.hardware, f"{page.hardware}  {page.path}", columns, records)
