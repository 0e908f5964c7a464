"""One target's run: open the bench, sample in rounds, record, judge."""

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from attrs import asdict, evolve

from aiperf_core.errors import AiperfError
from aiperf_core.executor import BUILT_IN
from aiperf_core.goal import groups_of
from aiperf_core.harness.isolation.mapped_code import mapped
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.conditions import Censuses
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.progress import Progress, TimeLeft
from aiperf_core.harness.run.rounds import Rounds
from aiperf_core.harness.run.setup import Setup
from aiperf_core.harness.run.taking import JudgeError
from aiperf_core.harness.run.workers import NextJudge
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Observations, Overhead, Problem, Row, Sighting, TargetResult, Verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.observations import harness_s
from aiperf_core.stats.speed_of_light import cost_of, groups_used, own_cost
from aiperf_core.stats.standing import rules_of
from aiperf_core.stats.verdicts import FASTER_THAN_LIGHT
from aiperf_core.validity.assess import Assessment, assess, built_in
from aiperf_core.validity.evidence import Evidence, SelfCheck
from aiperf_core.validity.policy import always

# Ceilings are measured again this often before a row is called faster than light.
REMEASURED = 2


def run_target(setup: Setup, next_judge: NextJudge | None = None) -> tuple[TargetResult, dict[str, float] | None]:
    """Measure a target, in rounds of fresh processes. Ctrl-C ends the measuring and keeps what was measured.

    Return the durations of the phases too, for estimates of later runs; None where the run did not come to its end.

    Raises `AiperfError` where the workload itself is at fault and nothing can be measured, and `KeyboardInterrupt`
    where Ctrl-C came before there was anything to keep.
    """
    created, started = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    bench = Bench(setup, next_judge)
    rounds = _rounds(bench, started)
    interrupted = _sample(bench, rounds)
    if not bench.is_open:
        raise KeyboardInterrupt
    observed = record(bench)
    result = _unjudged(bench, rounds, created=created, complete=not interrupted)
    costs = [own_cost(cost_of(result.problem), one) for one in observed]
    groups = {*groups_used(costs), *groups_of(setup.plan.described.goals, setup.device.name)}
    result = judged(result, observed, partial(setup.ceilings, groups=sorted(groups)))
    finished = not interrupted and bench.active
    return result, rounds.progress.left.durations if finished else None


def judged(
    result: TargetResult, observed: Sequence[Observations], measure_ceilings: Callable[[bool], Ceilings | None]
) -> TargetResult:
    """A result with the rows that `judge` makes of its observations.

    A ceiling measured in a bad moment is too low, so ceilings are measured again before a row counts as faster than
    light. The row keeps the finding among its observations, since ceilings may be measured again for a later target.
    """
    rows = judge(observed, rules_of(result, measure_ceilings(False)))
    for _ in range(REMEASURED):
        if not any(map(_too_fast, rows)):
            break
        rows = judge(observed, rules_of(result, measure_ceilings(True)))
    return evolve(result, rows=[evolve(row, checked=[*row.checked, *_too_fast(row)]) for row in rows])


def _too_fast(row: Row) -> list[Sighting]:
    return [Sighting(one.issue, one.message, one.evidence) for one in row.findings if one.issue == FASTER_THAN_LIGHT]


def _rounds(bench: Bench, started: float) -> Rounds:
    setup, options = bench.setup, bench.setup.options
    left = TimeLeft(options.rounds, options.round_budget_s, 1, setup.before)
    censuses = Censuses(setup, bench.conditions.telemetry)
    rounds = Rounds(bench, Progress(setup, bench.conditions, left, started), censuses)
    # Samples of a pass are not known yet: at least one of each implementation.
    left.least_passes = max(rounds.least_passes, math.ceil(options.min_samples / options.rounds))
    return rounds


def _sample(bench: Bench, rounds: Rounds) -> bool:
    """Open the bench, run the rounds and close it. Return whether Ctrl-C ended them."""
    interrupted = False
    try:
        rounds.progress.tell("setup: make inputs")
        bench.open()
        for number in range(bench.setup.options.rounds):
            rounds.run(number)
    except KeyboardInterrupt:
        interrupted, rounds.stopped = True, "interrupted"
        if bench.is_open:
            bench.note_memory()
    except JudgeError as error:
        raise AiperfError(f"{bench.setup.plan.name!r} could not be judged: {error}{_suspects(bench, error)}") from None
    finally:
        bench.close()
    return interrupted


def _suspects(bench: Bench, error: JudgeError) -> str:
    """Suspects that took the memory for which a process of the harness was killed, as text."""
    if not bench.setup.untrusted or "SIGKILL" not in str(error):
        return ""
    if bench.workers.overuse:
        return f". The candidate was killed, too: {bench.workers.overuse}"
    return ". Whether the target or the candidate took it is not known: free memory, and judge it again"


def _unjudged(bench: Bench, rounds: Rounds, *, created: str, complete: bool) -> TargetResult:
    """The result of a run without its rows."""
    setup, plan = bench.setup, bench.setup.plan
    by_observer_s = harness_s(bench.baseline.observed.samples)
    return TargetResult(
        target=plan.name,
        summary=plan.selection.target.summary,
        goal=plan.described.goal,
        clock=setup.clock,
        cache=plan.described.cache,
        device=setup.device.name,
        problem=_problem(bench),
        rows=[],
        order=bench.sampler.order,
        overhead=Overhead(**asdict(rounds.spent), other_s=rounds.spent.other_s),
        seed=setup.seed,
        started=created,
        wall_s=time.monotonic() - rounds.progress.started,
        stopped=rounds.stopped,
        tier=setup.options.tier,
        rounds=setup.options.rounds,
        clock_overhead_s=bench.taker.method.clock_cost_s if by_observer_s is None else by_observer_s,
        floor=setup.options.stopping.floor,
        clock_source=setup.kind.clock if setup.clock == "device" else None,
        executor=plan.executor,
        no_gain=plan.described.no_gain_on.get(setup.device.name),
        judging=setup.judging,
        simulated=setup.simulated,
        witness_quiet_s=setup.quiet.turn_s if setup.witnessed else None,
        complete=complete,
    )


def _problem(bench: Bench) -> Problem:
    plan, opened = bench.setup.plan, bench.opened
    return Problem(
        size=plan.size,
        params=plan.params,
        tolerance=opened["tolerance"],
        input_bytes=opened["input_bytes"],
        output_bytes=opened["output_bytes"],
        world_size=max(1, plan.world_size),
        floor=dict(plan.described.floor) if bench.setup.floors else {},
        nodes=max(1, *(len(set(one.recorder.ranks.places)) for one in bench.participants)),
        **opened["cost"],
    )


# --- the observations


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
        self_check=SelfCheck(seeds=bench.taker.drawn, declared=declared),
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
