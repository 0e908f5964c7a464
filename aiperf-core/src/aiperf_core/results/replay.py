"""A stored row as the harness had it when it computed the row's figures, so that the same code computes them again."""

from aiperf_core.harness.contestant import Contestant
from aiperf_core.harness.described import DescribedImplementation
from aiperf_core.harness.statistics import Blocks
from aiperf_core.results.models import Ceilings, Row, TargetResult
from aiperf_core.results.notes import DISBELIEVED


def contestant(result: TargetResult, row: Row, ceilings: Ceilings | None) -> Contestant:
    """The contestant that a row was made of, as far as a bundle tells. `ceilings` are those of the result's device.

    That a row is not believed is taken from it: it stopped taking part for a reason that its samples do not hold.
    """
    declared = DescribedImplementation(
        name=row.name,
        role=row.role,
        device=row.device,
        where="",
        why=row.why or "",
        kind=row.kind,
        requires=list(row.requires),
        builds_on=row.builds_on,
    )
    ended = row.verdict if row.verdict in DISBELIEVED else None
    step = ceilings.event_step_s if ceilings else None
    return Contestant(
        declared,
        row.name,
        ended=ended,
        reason=row.reason if ended else None,
        findings=list(row.findings),
        samples=row.samples,
        memory=row.memory,
        isolated_samples_s=row.isolated_samples_s,
        calls=row.samples.calls[-1] if row.samples.calls else 0,
        clock_cost_s={} if result.clock_overhead_s is None else {result.clock: result.clock_overhead_s},
        clock_step_s={"device": step} if step else {},
    )


def blocks(result: TargetResult, row: Row, ceilings: Ceilings | None) -> Blocks:
    """A row's times of a call by the target's clock, with their passes and rounds."""
    return contestant(result, row, ceilings).blocks(result.clock, len(result.rows))
