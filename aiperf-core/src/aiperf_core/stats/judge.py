"""The judgement of a target: a pure function from observations to rows, of a run and of its recheck alike."""

from collections.abc import Sequence

from aiperf_core.results.models import Judging, Observations, Row, Sighting, Verdict
from aiperf_core.stats import clock_agreement
from aiperf_core.stats.clock_agreement import Suspicion
from aiperf_core.stats.observations import is_observed
from aiperf_core.stats.standing import Rules, Standing
from aiperf_core.stats.verdicts import Scoring
from aiperf_core.validity.checks.process_census import BASELINE_FAULTS
from aiperf_core.validity.policy import Policy


def judge(observed: Sequence[Observations], rules: Rules) -> list[Row]:
    """The rows of a target, in the order of its observations, the baseline first.

    What was seen while samples were taken counts first, then what the clocks show, then what the checks saw.
    """
    standings = [Standing(one, Policy(rules.judging.policy)) for one in observed]
    for one in standings:
        _apply_sampling(one)
        _leave_short_calls_open(one, rules)
    if not rules.complete and rules.judging.resamples:
        _leave_suspects_open(standings, rules)
    if rules.guards("clocks_agree"):
        _compare_clocks(standings, rules)
    if rules.judging.watches_calls:
        _refuse_work_beside(standings)
    for one in standings:
        # A row that is left open for other work on the machine may still be INVALID for what the checks saw.
        if one.ended in (None, Verdict.INCONCLUSIVE):
            any(one.find(seen) for seen in one.observed.checked)
        _leave_disturber_open(one)
    return Scoring(standings, rules).rows()


def suspicion(baseline: Observations, one: Observations, judging: Judging) -> Suspicion | None:
    """The suspicion for which an implementation is resampled before a finding; None where its samples show nothing."""
    lying = clock_agreement.disagreement(baseline, one) if "clocks_agree" not in judging.off else None
    return lying or (clock_agreement.work_beside(baseline, one) if judging.watches_calls else None)


def _apply_sampling(one: Standing) -> None:
    """Apply what was seen while samples were taken, and the way in which the implementation left the run."""
    ending = one.observed.ending
    if not any(one.find(seen) for seen in one.observed.seen) and ending is not None:
        one.stop(ending.verdict, ending.reason)


def _leave_short_calls_open(one: Standing, rules: Rules) -> None:
    """Leave code open that an observer timed, where the harness's own time in a sample hides the call."""
    samples = one.observed.samples
    if one.active and is_observed(samples) and min(rules.clocks.times(samples, "wall"), default=1.0) <= 0:
        overhead_s = rules.clocks.cost_s.get("wall", 0.0)
        reason = (
            f"a sample takes no longer than the harness itself in a sample, {overhead_s * 1e6:,.0f} us: make the "
            "workload larger, or repeat it on a quiet machine"
        )
        one.stop(Verdict.INCONCLUSIVE, reason)


def _leave_disturber_open(one: Standing) -> None:
    """Leave code open that the baseline paid for: whether it or the machine took the pages is not known."""
    seen = next((seen for seen in one.observed.checked if seen.issue == BASELINE_FAULTS), None)
    if seen is not None and one.active:
        one.stop(Verdict.INCONCLUSIVE, f"{seen.message}; repeat it on a machine with more free memory")


def _leave_suspects_open(standings: Sequence[Standing], rules: Rules) -> None:
    """Leave a suspect open where Ctrl-C came before it was resampled: few samples prove nothing."""
    for one in standings:
        if one.active and one.observed.resampled is None:
            found = suspicion(standings[0].observed, one.observed, rules.judging)
            if found:
                one.stop(Verdict.INCONCLUSIVE, f"interrupted before it could be resampled: {found.message}")


def _compare_clocks(standings: Sequence[Standing], rules: Rules) -> None:
    found = clock_agreement.compare_with_supervisor([one.observed for one in standings], rules.clocks)
    for one, suspected in zip(standings, found, strict=True):
        if one.active and suspected:
            _act_on(suspected, one, clock_agreement.DISAGREE, Verdict.UNTRUSTED)


def _refuse_work_beside(standings: Sequence[Standing]) -> None:
    """Take out implementations that are busier than the baseline beside the timed call."""
    for one in standings[1:]:
        found = clock_agreement.work_beside(standings[0].observed, one.observed) if one.active else None
        if found:
            _act_on(found, one, "location.work_between_calls", Verdict.INVALID)


def _act_on(suspected: Suspicion, one: Standing, issue: str, verdict: Verdict) -> None:
    """Take an implementation out: with a finding, or open where other work may be the cause."""
    if suspected.proven:
        evidence = {**suspected.evidence, "chance": suspected.chance}
        one.find(Sighting(issue, suspected.message, evidence, verdict))
        return
    reason = f"{suspected.message}; other work on the machine may be the cause: repeat it on a quiet machine"
    one.stop(Verdict.INCONCLUSIVE, reason)
