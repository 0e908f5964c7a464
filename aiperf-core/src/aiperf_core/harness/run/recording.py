"""From what a run has seen to its record: the immutable observations of each implementation."""

from typing import Any

from attrs import asdict

from aiperf_core.executor import BUILT_IN
from aiperf_core.harness.isolation.mapped_code import mapped
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.participant import Participant
from aiperf_core.results.models import Observations, Sighting, Verdict
from aiperf_core.validity.assess import Assessment, assess, built_in
from aiperf_core.validity.evidence import Evidence, SelfCheck
from aiperf_core.validity.policy import always


def record(bench: Bench) -> list[Observations]:
    """The observations of all implementations, with what the checks saw in their evidence."""
    _check(bench)
    for one in bench.participants:
        if isinstance(one.child, RankGroup):
            one.recorder.ranks.places = one.child.places
            one.recorder.note(not_observed={**one.child.not_observed, **one.observed.not_observed})
        own = dict(bench.opened["own_costs"].get(one.name, {}))
        one.recorder.note(precision=own.pop("precision", None), least_work=own)
    return [one.recorder.observations(bench.opened["tolerance"]) for one in bench.participants]


def _check(bench: Bench) -> None:
    """Let the checks look at the evidence of each implementation."""
    setup, off = bench.setup, bench.setup.options.off
    # Without input refresh, or without judging, there are no seeds to look at.
    off |= set() if setup.guards("fresh_values", "judged_output") else {"seeds", "versions"}
    checks, baseline = (*built_in(), *setup.options.known.checks), None
    # An executor of a plugin may start workers that have other libraries than the server here.
    server = mapped([setup.server.pid]) if setup.plan.executor in BUILT_IN else None
    for one in bench.participants:
        evidence = _evidence(bench, one, baseline=baseline, server_libraries=server.libraries if server else None)
        baseline = baseline or evidence
        if (one.active or one.was_starved) and one.declared.role != "control":
            _note_checks(one, assess(evidence, checks, off), untrusted=setup.source_of(one.declared) is not None)


def _evidence(bench: Bench, one: Participant, **beside: Any) -> Evidence:
    """All that was seen of an implementation. Views of arguments that the reference returns too are no aliases."""
    setup, opened, seen, observed = bench.setup, bench.opened, one.process, one.observed
    declared = {"run": asdict(setup.plan.described), "judge": opened["declared"]}
    if seen.declared_to_worker is not None:
        declared["worker"] = seen.declared_to_worker
    ranks = one.recorder.ranks.did
    return Evidence(
        name=one.name,
        role=one.declared.role,
        device=setup.device.name,
        clock=setup.clock,
        cache=setup.plan.described.cache,
        samples=observed.samples,
        audit=observed.audit,
        state_before=seen.state_before,
        state_after=seen.state_after,
        census=seen.census,
        faults=seen.faults,
        repeated_s=seen.repeated_s,
        fresh_s=seen.fresh_s,
        aliases=None if seen.aliases is None else sorted({*seen.aliases} - {*opened["views"]}),
        libraries=seen.mapped.libraries if seen.mapped else None,
        extensions=seen.mapped.extensions if seen.mapped else None,
        ranks=ranks or None,
        world_size=max(1, len(ranks)),
        wire_bytes=opened["cost"]["wire_bytes"],
        lossy=one.declared.lossy is not None,
        self_check=SelfCheck(seeds=bench.sampler.taker.seeds.drawn, declared=declared),
        memory=observed.memory,
        machine=bench.facts,
        **beside,
    )


def _note_checks(one: Participant, assessment: Assessment, *, untrusted: bool = False) -> None:
    """Keep what the checks saw of an implementation.

    A check that failed guards nothing. Untrusted code may have caused the failure, and its row becomes UNTRUSTED.
    """
    checked = []
    for guard, how in assessment.failed.items():
        message = f"the check {guard!r} failed and guards nothing here: {how}"
        effects, evidence = always("invalid" if untrusted else "warning"), {"guard": guard}
        checked.append(Sighting("evaluation.fails_open", message, evidence, Verdict.UNTRUSTED, effects))
    checked += [one.of_policy(Sighting(seen.issue, seen.message, seen.evidence)) for seen in assessment.seen]
    not_observed = {**one.observed.not_observed, **assessment.not_observed}
    one.recorder.note(checked=checked, not_observed=not_observed)
