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
    """A table of the variants of all expectations files. `unknown` variants have no file."""
    known = [page for page in pages if page.judgements is not None]
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
        tables=[_table(known)] if known else [],
    )


def _counts(judgements: Sequence[Judgement], unknown: int) -> str:
    """The numbers of variants with and without a threshold, the latter by outcome."""
    outcomes = Counter(judgement.outcome for judgement in judgements)
    checked = sum(outcomes[outcome] for outcome in OUTCOMES)
    others = {outcome: outcomes[outcome] for outcome in (*UNEXPECTED, NO_THRESHOLD)} | {"without a file": unknown}
    named = ", ".join(f"{count} {outcome}" for outcome, count in others.items() if count)
    skipped = f", {outcomes['SKIPPED']} skipped" if outcomes["SKIPPED"] else ""
    return (
        f"{plural('variant', checked)} checked ({outcomes[MISSED]} below the threshold), {sum(others.values())} "
        f"without a threshold{f' ({named})' if named else ''}{skipped}"
    )


def _table(pages: Sequence[JudgedPage]) -> Table:
    machines = {page.hardware for page in pages}
    first = pages[0]
    title = f"{first.hardware}  {first.path}" if len(pages) == 1 else f"{len(pages)} files of expectations"
    columns = [
        *([Column("machine", "machine")] if len(machines) > 1 else []),
        Column("implementation", "implementation"),
        Column("at_least", "at least", "figure"),
        Column("found", "found", "figure"),
        Column("outcome", "outcome", "verdict"),
        Column("reason", "reason"),
    ]
    records = [
        Record(
            {
                "machine": page.hardware,
                "implementation": judgement.name,
                "at_least": counted(judgement.threshold.bound) if judgement.threshold else None,
                "found": figure(judgement.figure) if judgement.figure else None,
                "outcome": judgement.outcome,
                "reason": judgement.reason,
            }
        )
        for page in pages
        for judgement in page.judgements or ()
    ]
    return Table(first.hardware if len(pages) == 1 else "expectations", title, columns, records)
