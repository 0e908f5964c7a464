"""Figures of a stored result that contradict each other: a believed row that its own record does not support.

`stats.recheck` computes figures again from samples. What a check saw is no such figure, but it leaves traces in other
fields. A run writes all of them together, so that an edit of one field shows.
"""

from collections import Counter
from collections.abc import Iterator

from aiperf_core.results.models import Manifest, Row, TargetResult
from aiperf_core.results.seal_check import Difference
from aiperf_core.stats.conditions import warm_after_flush
from aiperf_core.validity.policy import Policy


def contradictions(result: TargetResult, manifest: Manifest) -> Iterator[Difference]:
    """The contradictions in a target's result."""
    requested = manifest.request.policy if manifest.request else result.judging.policy
    if result.judging.policy != requested:
        yield Difference(result.target, "policy", result.judging.policy, f"{requested}, by the request of the run")
    yield from _of_counts(result)
    for row in result.rows:
        if is_believed(row):
            where = f"{result.target}:{row.name}"
            yield from _of_verification(where, row, result)
            yield from _of_samples(where, row, result)
            yield from _of_flush(where, row, Policy(result.judging.policy))


def is_believed(row: Row) -> bool:
    """Whether a row claims a time that may be trusted."""
    return row.is_believed and row.time_s is not None


# --- verification


def _of_verification(where: str, row: Row, result: TargetResult) -> Iterator[Difference]:
    """A believed row has verified samples, and none of them was wrong."""
    judgement = row.judgement
    if judgement is None or judgement.samples == 0:
        yield Difference(where, "verified samples", "none", "at least 1 in a row that is believed")
        return
    # No policy believes a row with a wrong output.
    if judgement.worst is None or judgement.worst > 1:
        worst = "none" if judgement.worst is None else f"{judgement.worst:.9g}"
        yield Difference(where, "worst", worst, "at most 1, the tolerance, in a row that is believed")
    if judgement.tolerance != result.problem.tolerance:
        yield Difference(where, "tolerance", judgement.tolerance, result.problem.tolerance)
    quality = row.quality
    if quality and (quality.value is None or quality.value > quality.budget):
        value = "none" if quality.value is None else f"{quality.value:.9g}"
        yield Difference(where, "quality", value, f"at most {quality.budget:.9g}, its budget")
    # The samples that are marked were verified, and besides them only samples of the warm-up. Ctrl-C may come between a
    # sample and its verification.
    least = sum(row.samples.judged) if result.complete else 0
    most = sum(row.samples.judged) + len(row.warmup_s)
    if not least <= judgement.samples <= most:
        yield Difference(where, "verified samples", str(judgement.samples), f"{least} to {most} by its samples")


# --- counts


def _of_counts(result: TargetResult) -> Iterator[Difference]:
    """The counts of a target fit those of its rows."""
    names = {row.name for row in result.rows}
    if unknown := sorted(set(result.order) - names):
        yield Difference(result.target, "order", unknown[0], "no such row")
    samples = sum(len(row.samples.block) for row in result.rows)
    # Ctrl-C may come between a sample and its count.
    if result.complete and result.overhead.samples != samples:
        yield Difference(result.target, "samples", str(result.overhead.samples), f"{samples} in its rows")


def _of_samples(where: str, row: Row, result: TargetResult) -> Iterator[Difference]:
    """Rounds and blocks of a row fit the target's, and the readings after its blocks."""
    rounds = max(row.samples.round, default=0) + 1
    if rounds > result.rounds:
        yield Difference(where, "rounds", str(result.rounds), f"{rounds} by its samples")
    if not result.complete:
        return
    blocks, turns = len(set(row.samples.block)), Counter(result.order)[row.name]
    if blocks != turns:
        yield Difference(where, "blocks", f"{turns} in the order of the run", f"{blocks} by its samples")
    conditions = row.conditions
    if conditions is None:
        return
    if conditions.readings != blocks:
        yield Difference(where, "readings", str(conditions.readings), f"{blocks}, one after each block")
    throttled = any(row.samples.throttled)
    if conditions.throttled_share is not None and bool(conditions.throttled_share) != throttled:
        share = f"{conditions.throttled_share:.9g}"
        yield Difference(where, "throttled share", share, "above 0 by its samples" if throttled else "0 by its samples")


# --- findings


def _of_flush(where: str, row: Row, policy: Policy) -> Iterator[Difference]:
    """A flush that leaves the cache warm was seen by the run, unless its policy ignores that."""
    warm = warm_after_flush(row.flush) if row.flush is not None else None
    seen = {one.issue for one in row.seen}
    if warm is not None and warm.issue not in seen and policy.effect(warm.issue) != "ignored":
        yield Difference(where, "finding", "none", f"{warm.issue}: {warm.message}")
