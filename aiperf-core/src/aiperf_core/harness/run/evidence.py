"""What the checks look at, put together from a run, and what they saw."""

from collections.abc import Collection
from typing import Any

from aiperf_core.harness.run.participant import Participant
from aiperf_core.results.models import Sighting, Verdict
from aiperf_core.validity.assess import Assessment
from aiperf_core.validity.evidence import Evidence, SelfCheck
from aiperf_core.validity.policy import always


def evidence_of(
    one: Participant,
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
    seen, observed = one.process, one.observed
    to_worker = {} if seen.declared_to_worker is None else {"worker": seen.declared_to_worker}
    ranks = one.recorder.ranks.did
    return Evidence(
        name=one.name,
        role=one.declared.role,
        samples=observed.samples,
        audit=observed.audit,
        state_before=seen.state_before,
        state_after=seen.state_after,
        census=seen.census,
        repeated_s=seen.repeated_s,
        fresh_s=seen.fresh_s,
        aliases=None if seen.aliases is None else sorted({*seen.aliases} - {*views}),
        libraries=seen.mapped.libraries if seen.mapped else None,
        extensions=seen.mapped.extensions if seen.mapped else None,
        ranks=ranks or None,
        world_size=max(1, len(ranks)),
        lossy=one.declared.lossy is not None,
        self_check=SelfCheck(seeds=seeds, declared={**declared, **to_worker}),
        memory=observed.memory,
        baseline=baseline,
        **shared,
    )


def note_checks(one: Participant, assessment: Assessment, *, untrusted: bool = False) -> None:
    """Keep what the checks saw of an implementation.

    A check that failed guards nothing. Untrusted code may have caused the failure, and its row becomes UNTRUSTED.
    """
    checked = [silence] if (silence := one.process.silence) else []
    for guard, how in assessment.failed.items():
        message = f"the check {guard!r} failed and guards nothing here: {how}"
        effects, evidence = always("invalid" if untrusted else "warning"), {"guard": guard}
        checked.append(Sighting("evaluation.fails_open", message, evidence, Verdict.UNTRUSTED, effects))
    for seen in assessment.seen:
        checked.append(one.of_policy(Sighting(seen.issue, seen.message, seen.evidence)))
    not_observed = {**one.observed.not_observed, **assessment.not_observed}
    one.recorder.note(checked=checked, not_observed=not_observed)
