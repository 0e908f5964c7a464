"""Bundles of a history for tests: a run for each figure, with a commit of its own."""

from datetime import UTC, datetime, timedelta

from attrs import evolve

from aiperf_core.measurements import Estimate
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Verdict
from aiperf_core.results.seal import sealed

START = datetime(2026, 9, 1, tzinfo=UTC)


def run(folder, number, time_s, *, verdict=None, created=None, labels=None, speedup=None, **manifest):
    """A sealed bundle whose variant `coalesced` took this long, of the commit with this number."""
    when = created or START + timedelta(hours=number)
    estimate = Estimate(time_s, time_s * 0.998, time_s * 1.002)
    ratio = 5.2e-3 / time_s if speedup is None else speedup
    rows = [
        row if row.name != "coalesced" else evolve(
            row, time_s=estimate, speedup=Estimate(ratio, ratio * 0.998, ratio * 1.002)
        )
        for row in example.rows()
        if row.name in ("strided", "coalesced")
    ]  # fmt: skip
    if verdict is not None:
        rows[1] = evolve(
            rows[1], verdict=verdict, time_s=None, speedup=None, step_speedup=None, reason="clocks disagree"
        )
    bundle = Bundle.create_at(folder / f"run-{number:03d}")
    bundle.write_target(evolve(example.result(), rows=rows, order=["strided", "coalesced"]))
    page = evolve(
        example.manifest(),
        created=when.isoformat(),
        commit_time=when.isoformat(),
        exit_code=0,
        labels=labels or {},
        **{"git": f"{number:012x}{0:028x}", **manifest},
    )
    hashes = {path: bundle.digest(path) for path in bundle.result_files}
    bundle.write_manifest(sealed(page, hashes, bundle.path))
    return bundle


UNTRUSTED = Verdict.UNTRUSTED
