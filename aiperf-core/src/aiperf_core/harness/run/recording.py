"""From what a run has seen to its record: the immutable observations of each implementation."""

from attrs import asdict

from aiperf_core.executor import BUILT_IN
from aiperf_core.harness.isolation.mapped_code import mapped
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.evidence import evidence_of, note_checks
from aiperf_core.results.models import Observations
from aiperf_core.validity.assess import assess, built_in


def record(bench: Bench) -> list[Observations]:
    """The observations of all implementations, with what the checks saw in their evidence."""
    _check(bench)
    for one in bench.participants:
        if isinstance(one.child, RankGroup):
            one.recorder.ranks.places = one.child.places
            one.recorder.note(not_observed=one.child.not_observed | one.observed.not_observed)
    return [one.recorder.observations(bench.opened["tolerance"]) for one in bench.participants]


def _check(bench: Bench) -> None:
    """Let the checks look at the evidence of each implementation."""
    setup, opened, off = bench.setup, bench.opened, bench.setup.options.off
    # Without input refresh, or without judging, there are no seeds to look at.
    off |= set() if setup.guards("fresh_values", "judged_output") else {"seeds", "versions"}
    checks, baseline = (*built_in(), *setup.options.checks), None
    # An executor of a plugin may start workers that have other libraries than the server here.
    server = mapped([setup.server.pid]) if setup.executor_name in BUILT_IN else None
    for one in bench.participants:
        evidence = evidence_of(
            one,
            seeds=bench.sampler.taker.seeds.drawn,
            declared={"run": asdict(setup.described), "judge": opened["declared"]},
            views=opened["views"],
            baseline=baseline,
            device=setup.device.name,
            clock=setup.clock,
            cache=setup.described.cache,
            machine=bench.facts,
            wire_bytes=opened["cost"]["wire_bytes"],
            server_libraries=server.libraries if server else None,
        )
        baseline = baseline or evidence
        if (one.active or one.was_starved) and one.declared.role != "control":
            note_checks(one, assess(evidence, checks, off), untrusted=setup.source_of(one.declared) is not None)
