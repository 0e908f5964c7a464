"""Records of how cases ended, and which of them are kept for `aiperf validity`."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from attrs import evolve, frozen

from aiperf_core.proofs import outcomes
from aiperf_core.proofs.outcomes import PROVEN, Kept, Outcome
from aiperf_core.proofs.support import name_of
from aiperf_core.validity.cases import Case

WRONG = (Outcome.MISSED, Outcome.VOID, Outcome.FLAGGED)


@frozen(kw_only=True)
class Proof:
    """How one case ended on one device.

    off, on: what the row said with the guard off and with it on; empty where there was no such run. tier: that of the
    last runs. reason: why it ended so, where that needs a reason. seconds: how long it took.
    """

    case: str
    honest: bool
    device: str
    outcome: Outcome
    reason: str = ""
    off: str = ""
    on: str = ""
    tier: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, case: Case, outcome: Outcome, tier: str = "", **said: str) -> "Proof":
        """The proof of a case; `said` has `off`, `on` and `reason`."""
        return cls(case=name_of(case), honest=case.honest, device=case.device, outcome=outcome, tier=tier, **said)  # type: ignore[arg-type]  # texts

    def beside(self, load: str) -> "Proof":
        """The proof of an attack beside this load, if any: where it failed, it is undecided."""
        if not load or self.outcome not in (Outcome.MISSED, Outcome.VOID, Outcome.ERROR, Outcome.UNDECIDED):
            return self
        return evolve(self, outcome=Outcome.UNDECIDED, reason=f"{load}: {self.reason}")


@frozen(kw_only=True)
class Proven:
    """How the cases of an issue ended.

    untried: the outcome where no attack could be tried here: `EXCLUDED`, `OWED` or `UNPROVEN`.
    """

    issue: str
    guard: str
    proofs: tuple[Proof, ...] = ()
    untried: Outcome = Outcome.UNPROVEN

    @property
    def category(self) -> str:
        """The part of the issue before the dot."""
        return self.issue.partition(".")[0]

    @property
    def attacks(self) -> list[Proof]:
        """The proofs of attacks."""
        return [proof for proof in self.proofs if not proof.honest]

    @property
    def look_alikes(self) -> list[Proof]:
        """The proofs of honest look-alikes."""
        return [proof for proof in self.proofs if proof.honest]

    @property
    def outcome(self) -> Outcome:
        """The worst failure, or else the best proof: an attack on this machine counts more than recorded evidence."""
        attacks, every = ({proof.outcome for proof in proofs} for proofs in (self.attacks, self.proofs))
        if attacks & {Outcome.MISSED, Outcome.VOID}:
            return Outcome.MISSED
        worst = [outcome for outcome in (Outcome.FLAGGED, Outcome.ERROR, Outcome.UNDECIDED) if outcome in every]
        best = [outcome for outcome in (*PROVEN, Outcome.RECORDED) if outcome in attacks]
        if not best and self.untried is Outcome.UNPROVEN and Outcome.NOT_OBSERVABLE in attacks:
            best = [Outcome.NOT_OBSERVABLE]
        return [*worst, *best, self.untried][0]

    @property
    def seconds(self) -> float:
        """How long its cases took."""
        return sum(proof.seconds for proof in self.proofs)


def keep(state: Mapping[str, str], results: Iterable[Proven]) -> None:
    """Keep results beside those of issues that were not tried now."""
    day = datetime.now(UTC).date().isoformat()
    kept = outcomes.read(state)
    for proven in results:
        # What an earlier selftest proved on a device that was left out today, or on a quiet machine, is still proven.
        if proven.outcome not in (Outcome.NOT_OBSERVABLE, Outcome.UNDECIDED, Outcome.OWED) or proven.issue not in kept:
            by = list(dict.fromkeys(proof.case for proof in proven.attacks if proof.outcome is proven.outcome))
            kept[proven.issue] = Kept(proven.outcome, day, by)
    outcomes.write(state, kept)
