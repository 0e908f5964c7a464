"""How often verdicts were reached, in words."""

from collections import Counter
from collections.abc import Iterable

from aiperf_core.report.result import LeftOut
from aiperf_core.results.models import Verdict


def tally(verdicts: Iterable[Verdict]) -> str:
    """How often each verdict was reached, in the order of `Verdict`: `2 FASTER, 1 INVALID`."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])


def causes(left_out: Iterable[LeftOut], others: str = "") -> str:
    """How many rows were left out by cause: `2 not trusted, 1 did not run`; empty where no row was.

    others: the cause of all that are neither; they are not counted without it.
    """
    parts = list(left_out)
    verdicts = [Verdict(part.verdict) for part in parts if part.verdict in {*Verdict}]
    skipped = verdicts.count(Verdict.SKIPPED)
    distrusted = sum(verdict.is_distrusted for verdict in verdicts)
    counts = {"not trusted": distrusted, "did not run": skipped}
    if others:
        counts[others] = len(parts) - distrusted - skipped
    return ", ".join(f"{count} {cause}" for cause, count in counts.items() if count)
