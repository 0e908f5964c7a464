"""The rules of a judgement, and the standing of an implementation while it is judged."""

from typing import Any

from attrs import define, field, frozen

from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Finding, Judging, Observations, Sighting, TargetResult, Verdict
from aiperf_core.stats.observations import Clocks, clocks_of
from aiperf_core.stats.speed_of_light import cost_of
from aiperf_core.validity.policy import Policy


@frozen(kw_only=True)
class Rules:
    """The rules by which a target's observations become rows.

    goal: the target's; if it is `memory`, verdicts are on peaks of memory.
    cost: what `speed_of_light.cost_of` makes of the problem.
    ceilings: of the device; None where none were measured.
    clocks: what the clocks add to a sample.
    complete: whether the target was measured to its end.
    witness_quiet_s: the quiet time of a turn of the witness; None where none was run.
    """

    clock: str
    cache: str
    goal: str
    cost: dict[str, Any]
    floor: float
    ceilings: Ceilings | None
    clocks: Clocks
    judging: Judging
    complete: bool
    witness_quiet_s: float | None = None

    def guards(self, *names: str) -> bool:
        """Whether none of these guards is switched off."""
        return not {*names} & {*self.judging.off}


def rules_of(result: TargetResult, ceilings: Ceilings | None) -> Rules:
    """The rules for the observations of a target. `ceilings` are of its device."""
    return Rules(
        clock=result.clock,
        cache=result.cache,
        goal=result.goal,
        cost=cost_of(result.problem),
        floor=result.floor,
        ceilings=ceilings,
        clocks=clocks_of(result, ceilings),
        judging=result.judging,
        complete=result.complete,
        witness_quiet_s=result.witness_quiet_s,
    )


@define(eq=False)
class Standing:
    """The observations of an implementation, and what was found so far.

    ended: its verdict, where it does not count any more; None where it does.
    """

    observed: Observations
    policy: Policy
    findings: list[Finding] = field(factory=list)
    ended: Verdict | None = None
    reason: str | None = None

    @property
    def name(self) -> str:
        """The implementation's name."""
        return self.observed.name

    @property
    def active(self) -> bool:
        """Whether it still counts."""
        return self.ended is None

    def find(self, seen: Sighting) -> bool:
        """Apply the policy to an issue that was seen. Return whether the implementation counts no more."""
        effect = effect_of(seen, self.policy)
        known = any((one.issue, one.message) == (seen.issue, seen.message) for one in self.findings)
        if effect == "invalid":
            self.stop(seen.verdict, seen.message)
        if effect != "ignored" and (effect == "invalid" or not known):
            self.findings.append(Finding(seen.issue, effect, seen.message, seen.evidence))
        return effect == "invalid"

    def stop(self, verdict: Verdict, reason: str) -> None:
        """Take it out of the comparison. Its samples stay."""
        self.ended, self.reason = verdict, reason


def effect_of(seen: Sighting, policy: Policy) -> str:
    """Effect of a seen issue on a row: `invalid`, `warning` or `ignored`."""
    return policy.effect(seen.issue) if seen.effects is None else seen.effects[policy.name]
