"""The record of a run that checks look at: what was seen of each implementation, and how the harness itself behaved."""

import hashlib
from typing import Any

from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.sampler import MIN_PASSES, Sampler
from aiperf_core.results.models import Finding, Verdict
from aiperf_core.validity.assess import Assessment
from aiperf_core.validity.evidence import Conduct, Evidence
from aiperf_core.version import SOURCES


def rules(options: Options) -> tuple[str, str]:
    """Hashes of what must not change during a run: its options, and the harness's own sources."""
    sources = hashlib.sha256()
    for file in sorted(SOURCES.rglob("*.py")):
        sources.update(file.read_bytes())
    return hashlib.sha256(repr(options).encode()).hexdigest(), sources.hexdigest()


def conduct_of(one: ImplementationRun, sampler: Sampler, before: tuple[str, str], after: tuple[str, str]) -> Conduct:
    """How the harness behaved towards an implementation. `before` and `after` are the `rules` then and now."""
    return Conduct(
        samples_taken=one.recorded,
        samples_kept=len(one.samples.block),
        passes=len(set(one.samples.block)),
        least_passes=MIN_PASSES if one.active else 0,
        statistic="median",
        planned_order=[],
        order=sampler.order,
        options_before=before[0],
        options_after=after[0],
        sources_before=before[1],
        sources_after=after[1],
        seeds=sampler.seeds,
        judged=one.judged,
    )


def evidence_of(
    one: ImplementationRun, *, conduct: Conduct, baseline: Evidence | None, views: set[str], **shared: Any
) -> Evidence:
    """All that was seen of an implementation.

    `views` are the paths of the output that the reference returns as views of its arguments, `shared` is what holds for all
    implementations.
    """
    return Evidence(
        name=one.name,
        role=one.declared.role,
        samples=one.samples,
        audit=one.audit,
        state_before=one.state_before,
        state_after=one.state_after,
        census=one.census,
        repeated_s=one.repeated_s,
        fresh_s=one.fresh_s,
        aliases=None if one.aliases is None else sorted({*one.aliases} - views),
        ranks=one.ranks or None,
        world_size=max(1, len(one.ranks)),
        lossy=one.declared.lossy is not None,
        conduct=conduct,
        memory=one.memory,
        baseline=baseline,
        **shared,
    )


def settle(one: ImplementationRun, assessment: Assessment, *, untrusted: bool = False) -> None:
    """Have an implementation bear what the checks saw, by the run's policy.

    A check that failed guards nothing. Code that is `untrusted` may have seen to that, and is not believed then.
    """
    one.not_observed.update(assessment.not_observed)
    for guard, how in assessment.failed.items():
        message = f"the check {guard!r} failed and guards nothing here: {how}"
        if untrusted:
            one.stop(Verdict.UNTRUSTED, message, Finding("evaluation.fails_open", "invalid", message, {"guard": guard}))
            return
        one.findings.append(Finding("evaluation.fails_open", "warning", message, {"guard": guard}))
    for seen in assessment.seen:
        if one.find(seen.issue, seen.message, seen.evidence):
            return
