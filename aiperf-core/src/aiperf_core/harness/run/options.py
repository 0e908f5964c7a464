"""What a user asked of a run."""

from collections.abc import Mapping

from attrs import field, frozen

from aiperf_core.devices.device import BUILT_IN, Device
from aiperf_core.executor import BUILT_IN as EXECUTORS
from aiperf_core.executor import Executor
from aiperf_core.harness.isolation.candidate import CandidateSource
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Severity


@frozen
class Tier:
    """How much a run proves: rounds of fresh processes, seconds of sampling in all, and whether with controls.

    Controls are the baseline against itself (A/A), and every implementation without the others in between.
    """

    rounds: int
    budget_s: float
    controls: bool


TIERS = {
    "quick": Tier(rounds=1, budget_s=3.0, controls=False),
    "standard": Tier(rounds=3, budget_s=30.0, controls=True),
    "audit": Tier(rounds=10, budget_s=120.0, controls=True),
}


@frozen(kw_only=True)
class Options:
    """Options of a run.

    device: `cpu`, `cuda` or one of a plugin; None takes one that is here and that the target has a use for, a GPU first and
        the processor last. devices: what there is to choose from, by name.
    executor: who starts the workers: `here`, `torchrun` or one of a plugin; None takes the one that fits the target. executors: what
        there is to choose from, by name.
    size: a preset's name; None takes the one named after the device. `params` override single sizes.
    tier: `quick`, `standard` or `audit`.
    budget_s: how long to sample one target, in seconds, all rounds together; None takes the tier's. Sampling ends
        earlier when every interval is narrow enough.
    timeout_s: how long one call, or one preparation, may take before its process counts as hung; a candidate, which may compile,
        takes up to six times as long for its import and its preparation.
    floor: the smallest relative difference that matters in practice.
    memory_limit_bytes: how much memory a worker on the CPU may take; None leaves it most of what is free.
    width: sampling may stop when half the interval of every speedup, relative to it, is below this.
    audit: whether CUPTI looks at some calls at the end of a run with controls on a GPU; starting it takes seconds.
    policy: what findings do to a row: `strict`, `standard` or `lenient`.
    off: guards of the validity registry that are switched off, to prove what each of them is good for. A result that was
        taken without one says so and is believed by nobody.
    candidate: code that nobody trusts, to be measured against the baseline alone, confined.
    checks: those of plugins, beside ours. severities: of the issues of plugins, by their ids.
    baseline: the implementation that counts as the baseline; None takes the declared one.
    energy: whether the energy of a call is measured at the end of a run with controls, which takes some seconds an
        implementation.
    """

    device: str | None = None
    devices: Mapping[str, Device] = field(factory=lambda: BUILT_IN)
    executor: str | None = None
    executors: Mapping[str, Executor] = field(factory=lambda: EXECUTORS)
    size: str | None = None
    params: dict[str, float] = field(factory=dict)
    tier: str = "quick"
    budget_s: float | None = None
    timeout_s: float = 60.0
    floor: float = 0.01
    width: float = 0.005
    memory_limit_bytes: int | None = None
    audit: bool = True
    energy: bool = True
    policy: str = "standard"
    off: frozenset[str] = frozenset()
    candidate: CandidateSource | None = None
    checks: tuple[Check, ...] = ()
    severities: Mapping[str, Severity] = field(factory=dict)
    baseline: str | None = None

    @property
    def rounds(self) -> int:
        """Rounds of fresh processes."""
        return TIERS[self.tier].rounds

    @property
    def round_budget_s(self) -> float:
        """Sampling time of one round in seconds."""
        budget = TIERS[self.tier].budget_s if self.budget_s is None else self.budget_s
        return budget / self.rounds

    @property
    def controls(self) -> bool:
        """Whether the run has controls."""
        return TIERS[self.tier].controls
