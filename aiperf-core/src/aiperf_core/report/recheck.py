"""A recheck of a bundle as a result."""

from aiperf_core.report.result import Column, Record, Result, Table
from aiperf_core.stats.recheck import Recheck
from aiperf_core.units import plural


def view(bundle: str, found: Recheck, *, seal_only: bool, signer: str | None = None) -> Result:
    """Summary of the recheck, the seal and the signer, and each difference."""
    checked = plural("target", found.targets)
    if not seal_only:
        checked += f", {plural('row', found.rows)}, {plural('sample', found.samples)}"
    differences = found.differences
    holds = f"does not hold: {plural('difference', len(differences))} in" if differences else "holds:"
    columns = [Column(name, name) for name in ("where", "what", "recorded", "found")]
    records = [
        Record({"where": one.where, "what": one.what, "recorded": one.recorded, "found": one.found})
        for one in differences
    ]
    notes = [f"seal: {found.seal}" if found.seal else "", f"signature: {signer}" if signer else ""]
    return Result(
        analysis="recheck",
        title=f"Recheck of {bundle}",
        summary=[f"{holds} {checked}", *filter(None, notes), *(f"note: {note}" for note in found.notes)],
        status="distrusted" if differences else "ok",
        tables=[Table("differences", "Differences", columns, records)] if records else [],
    )
