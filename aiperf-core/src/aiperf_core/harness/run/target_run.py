"""One target's run: open the bench, sample in rounds, record, judge."""

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from attrs import asdict, evolve, frozen

from aiperf_core.errors import AiperfError
from aiperf_core.goal import groups_of
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.censuses import Censuses
from aiperf_core.harness.run.durations import TimeLeft
from aiperf_core.harness.run.progress import Progress
from aiperf_core.harness.run.recording import record
from aiperf_core.harness.run.rounds import Rounds, Spent
from aiperf_core.harness.run.setup import Setup
from aiperf_core.harness.run.taking import JudgeError
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Observations, Overhead, Problem, Row, Sighting, TargetResult
from aiperf_core.stats.judge import judge
from aiperf_core.stats.observations import harness_s
from aiperf_core.stats.speed_of_light import cost_of, groups_used, own_cost
from aiperf_core.stats.standing import rules_of
from aiperf_core.stats.verdicts import FASTER_THAN_LIGHT

# Ceilings are measured again this often before a row is called faster than light.
REMEASURED = 2


@frozen
class Measured:
    """The result of a target's run.

    durations: what the phases took, for estimates of later runs; None where the run did not come to its end.
    """

    result: TargetResult
    durations: dict[str, float] | None


def run_target(setup: Setup) -> Measured:
    """Measure a target, in rounds of fresh processes. Ctrl-C ends the measuring and keeps what was measured.

    Raises `AiperfError` where the workload itself is at fault and nothing can be measured, and `KeyboardInterrupt`
    where Ctrl-C came before there was anything to keep.
    """
    created, started = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    bench = Bench(setup)
    rounds = _rounds(bench, started)
    interrupted = _sample(bench, rounds)
    if not bench.is_open:
        raise KeyboardInterrupt
    observed = record(bench)
    result = _unjudged(bench, rounds, created=created, complete=not interrupted)
    costs = [own_cost(cost_of(result.problem), one) for one in observed]
    groups = {*groups_used(costs), *groups_of(setup.plan.described.goals, setup.device.name)}
    result = judged(result, observed, partial(setup.machine.ceilings, groups=sorted(groups)))
    finished = not interrupted and bench.active
    return Measured(result, rounds.progress.left.found if finished else None)


def judged(
    result: TargetResult, observed: Sequence[Observations], measure_ceilings: Callable[[bool], Ceilings | None]
) -> TargetResult:
    """A result with the rows that `judge` makes of its observations.

    A ceiling measured in a bad moment is too low, so ceilings are measured again before a row counts as faster than
    light. The row keeps the finding among its observations, since ceilings may be measured again for a later target.
    """
    rows = judge(observed, rules_of(result, measure_ceilings(False)))
    for _ in range(REMEASURED):
        if not any(map(_is_too_fast, rows)):
            break
        rows = judge(observed, rules_of(result, measure_ceilings(True)))
    return evolve(result, rows=[evolve(row, checked=[*row.checked, *_too_fast(row)]) for row in rows])


def _is_too_fast(row: Row) -> bool:
    return bool(_too_fast(row))


def _too_fast(row: Row) -> list[Sighting]:
    return [Sighting(one.issue, one.message, one.evidence) for one in row.findings if one.issue == FASTER_THAN_LIGHT]


def _rounds(bench: Bench, started: float) -> Rounds:
    setup, options = bench.setup, bench.setup.options
    left = TimeLeft(options.rounds, options.round_budget_s, 1, setup.before)
    rounds = Rounds(
        bench, Progress(setup, bench.conditions, left, started), Censuses(setup, bench.conditions.telemetry)
    )
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
    """What is known of who took the memory for which a process of the harness was killed."""
    if not bench.setup.untrusted or "SIGKILL" not in str(error):
        return ""
    if bench.workers.overuse:
        return f". The candidate was killed, too: {bench.workers.overuse}"
    return ". Whether the target or the candidate took it is not known: free memory, and judge it again"


def _unjudged(bench: Bench, rounds: Rounds, *, created: str, complete: bool) -> TargetResult:
    """The result of a run without its rows."""
    setup, plan = bench.setup, bench.setup.plan
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
        overhead=_overhead(rounds.spent),
        seed=setup.seed,
        started=created,
        wall_s=time.monotonic() - rounds.progress.started,
        stopped=rounds.stopped,
        tier=setup.options.tier,
        rounds=setup.options.rounds,
        clock_overhead_s=_clock_overhead_s(bench),
        floor=setup.options.stopping.floor,
        clock_source=setup.kind.clock if setup.clock == "device" else None,
        executor=plan.executor,
        no_gain=plan.described.no_gain_on.get(setup.device.name),
        judging=setup.judging,
        complete=complete,
    )


def _clock_overhead_s(bench: Bench) -> float | None:
    """What the clock adds to a sample."""
    by_observer = harness_s(bench.participants[0].observed.samples)
    return bench.sampler.taker.method.clock_cost_s if by_observer is None else by_observer


def _problem(bench: Bench) -> Problem:
    plan, opened = bench.setup.plan, bench.opened
    return Problem(
        size=plan.size,
        params=plan.params,
        tolerance=opened["tolerance"],
        input_bytes=opened["input_bytes"],
        output_bytes=opened["output_bytes"],
        world_size=max(1, plan.world_size),
        nodes=max(1, *(len(set(one.recorder.ranks.places)) for one in bench.participants)),
        **opened["cost"],
    )


def _overhead(spent: Spent) -> Overhead:
    parts = asdict(spent.clockwork, filter=lambda kept, _: kept.name != "samples")
    return Overhead(
        samples=spent.clockwork.samples,
        setup_s=spent.setup_s,
        warmup_s=spent.warmup_s,
        sampling_s=spent.sampling_s,
        other_s=max(0.0, spent.sampling_s - sum(parts.values())),
        checks_s=spent.checks_s,
        **parts,
    )
