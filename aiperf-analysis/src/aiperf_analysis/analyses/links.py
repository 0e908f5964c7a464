"""Communication: the time of a step, the rate of the links, and the bytes that were sent."""

from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen

from aiperf_analysis.analyses.curves import MISFIT, SIZE, Group
from aiperf_analysis.models import laws
from aiperf_analysis.models.curve import CONTRADICTS
from aiperf_analysis.models.draws import percentiles
from aiperf_analysis.models.pieces import LEAST_POINTS
from aiperf_analysis.selection import Entry
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Cell, Column, Figure, Record, Table, counted, figure
from aiperf_core.stats.distributions import ENDS


@frozen(eq=False)
class Link:
    """The time of communication: alpha for a step, and bytes over a rate.

    steps: the steps of a call of the collectives that were counted; null where they are not known.
    """

    name: str
    alpha: Estimate
    rate: Estimate | None
    steps: float | None
    worst: float
    contradicted: bool


_STEPS: dict[str, Callable[[float], float]] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1),
    "all_gather": lambda ranks: ranks - 1,
    "reduce_scatter": lambda ranks: ranks - 1,
}


def links_of(group: Group, draws: int) -> list[Link]:
    """The fit of alpha and beta, where at least three sizes differ in their wire bytes.

    Over ranks the arithmetic of a rank changes too, and the time is not that of communication alone.
    """
    if group.kind != SIZE:
        return []
    sent = np.array([one.result.problem.wire_bytes for one in group.entries])
    if len(set(sent[sent > 0].tolist())) < LEAST_POINTS:
        return []
    curve = group.curve(draws).only([index for index, amount in enumerate(sent) if amount > 0])
    counts = [_steps(one) for one, amount in zip(group.entries, sent, strict=True) if amount > 0]
    known = all(one is not None for one in counts)
    steps = np.array([one if known and one is not None else 1.0 for one in counts])
    columns = np.stack([steps, sent[sent > 0]], axis=1)
    values = np.exp(np.vstack([curve.logs, curve.draws]))
    spreads = values[0] * curve.spreads
    # A third column of nothing would be free; here both are not negative.
    free = np.concatenate([np.zeros((len(steps), 1)), columns], axis=1)
    found = laws.nonnegative(free, values, spreads)[:, 1:]
    fitted = columns @ found[0]
    alpha = percentiles(float(found[0, 0]), found[1:, 0])
    rate = None
    if found[0, 1] > 0 and (found[1:, 1] > 0).mean() > ENDS[1]:
        slopes = found[1:, 1][found[1:, 1] > 0]
        rate = percentiles(float(1 / found[0, 1]), 1 / slopes)
    apart = np.abs(fitted / values[0] - 1)
    contradicted = bool((apart > CONTRADICTS * curve.spreads).any())
    first = next((one for one in counts if one is not None), None)
    return [Link(group.name, alpha, rate, first if known else None, float(apart.max()), contradicted)]


def _steps(entry: Entry) -> float | None:
    """The steps of a ring for the collectives of a call; None where a collective is not one of a ring."""
    ranks = entry.row.ranks
    if not ranks or not ranks[0].collectives:
        return None
    size = float(entry.result.problem.world_size)
    total = 0.0
    for name, count in ranks[0].collectives.items():
        kind = next((one for one in _STEPS if name.startswith(one)), None)
        if kind is None:
            return None
        total += count * _STEPS[kind](size)
    return total


def link_table(links: Sequence[tuple[Group, Link]]) -> Table:
    """The fitted links."""
    columns = [
        Column("row", "implementation"),
        Column("executor", "executor"),
        Column("alpha", "alpha", "figure"),
        Column("steps", "steps of a call", "figure"),
        Column("rate", "bus bandwidth, 1 / beta", "figure"),
        Column("worst", "largest deviation", "figure"),
        Column("verdict", "fit", "verdict"),
    ]
    records = [
        Record(
            {
                "row": one.name,
                "executor": group.key.executor,
                "alpha": figure(one.alpha, "s", "derived"),
                "steps": counted(one.steps, "count", "the collectives are no ring; alpha is for a call"),
                "rate": figure(one.rate, "B/s", "derived", "the time does not grow with the bytes"),
                "worst": Figure(value=100 * one.worst, unit="%", certainty="derived"),
                "verdict": MISFIT if one.contradicted else "fits",
            },
            [entry.origin for entry in group.entries],
        )
        for group, one in links
    ]
    note = (
        "t = alpha x steps + beta x bytes, with the wire bytes of a rank: 2 (N - 1) / N of the data in an all-reduce."
    )
    return Table("links", "communication", columns, records, note)


def rate_table(groups: Sequence[Group]) -> Table:
    """Wire bytes over the time, of each point that declares some."""
    columns = [
        Column("row", "implementation"),
        Column("executor", "executor"),
        Column("at", groups[0].over, "figure"),
        Column("bytes", "wire bytes of a rank", "figure"),
        Column("rate", "bytes over time", "figure"),
    ]
    records = []
    for group in groups:
        for at, entry, time in zip(group.at, group.entries, group.times, strict=True):
            sent = entry.result.problem.wire_bytes
            if sent > 0:
                rate = Estimate(sent / time.value, sent / time.high, sent / time.low)
                cells: dict[str, Cell] = {
                    "row": group.name,
                    "executor": group.key.executor,
                    "at": counted(at, "count"),
                    "bytes": counted(sent, "B"),
                    "rate": figure(rate, "B/s", "derived"),
                }
                records.append(Record(cells, [entry.origin]))
    return Table("rates", "wire bytes over the time of a call", columns, records)
