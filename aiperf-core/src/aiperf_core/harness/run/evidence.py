"""What the checks look at, put together from a run, and what their findings do to an implementation."""

from collections.abc import Collection
from typing import Any

from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.results.models import Finding, Verdict
from aiperf_core.validity.assess import Assessment
from aiperf_core.validity.evidence import Evidence, SelfCheck


def evidence_of(
    one: ImplementationRun,
    *,
    seeds: list[int],
    declared: dict[str, dict[str, Any]],
    views: Collection[str],
    baseline: Evidence | None,
    **shared: Any,
) -> Evidence:
    """All that was seen of an implementation.

    seeds: all that the run drew.
    declared: what the benchmark declares, by process.
    views: paths of the output that the reference returns as views of its arguments.
    shared: fields that all implementations have in common.
    """
    to_worker = {} if one.declared_to_worker is None else {"worker": one.declared_to_worker}
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
        aliases=None if one.aliases is None else sorted({*one.aliases} - {*views}),
        libraries=one.mapped.libraries if one.mapped else None,
        extensions=one.mapped.extensions if one.mapped else None,
        ranks=one.ranks or None,
        world_size=max(1, len(one.ranks)),
        lossy=one.declared.lossy is not None,
        self_check=SelfCheck(seeds=seeds, declared={**declared, **to_worker}),
        memory=one.memory,
        baseline=baseline,
        **shared,
    )


def apply_findings(one: ImplementationRun, assessment: Assessment, *, untrusted: bool = False) -> None:
    """Give an implementation the findings of the checks, by the run's policy.

    A check that failed guards nothing. Untrusted code may have caused the failure, and its row becomes UNTRUSTED.
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
