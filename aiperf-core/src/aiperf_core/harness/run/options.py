"""The options of a run."""

from collections.abc import Mapping

from attrs import field, frozen

from aiperf_core.devices.device import BUILT_IN, Device
from aiperf_core.executor import BUILT_IN as EXECUTORS
from aiperf_core.executor import Executor
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.results.run_options import RunOptions
from aiperf_core.tolerance import Tolerance
from aiperf_core.validity.check import Check
from aiperf_core.validity.issues import Severity

# A candidate may compile at its import, in `prepare` and at its first call: each may take this many times as long as a
# call. The checks of a reference of another harness, which are several calls of it, too.
COMPILING = 6


# The longest sampling of a target that goes on until it is decided.
LONGEST_S = 600.0


@frozen
class Tier:
    """How much a run proves.

    rounds: rounds of fresh processes.
    budget_s: seconds of sampling over all rounds.
    controls: whether the baseline is also measured against itself (A/A), and every implementation without the others.
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
class Known:
    """The devices, executors and checks that a run knows, with those of plugins.

    devices: all devices, by name.
    executors: all executors, by name.
    checks: the checks of plugins, beside the core's.
    severities: severities of plugins' issues, by id.
    """

    devices: Mapping[str, Device] = field(factory=lambda: BUILT_IN)
    executors: Mapping[str, Executor] = field(factory=lambda: EXECUTORS)
    checks: tuple[Check, ...] = ()
    severities: Mapping[str, Severity] = field(factory=dict)


@frozen(kw_only=True)
class StoppingRule:
    """When the sampling of a target may end before its budget.

    width: sampling may stop when the relative half-width of every speedup's interval is below this.
    floor: the smallest relative difference that matters in practice; verdicts depend on it.
    """

    width: float = 0.005
    floor: float = 0.01


@frozen(kw_only=True)
class AtEnd:
    """Measurements at the end of a run with controls, after sampling.

    audit: whether CUPTI audits some calls on a GPU; starting it takes seconds.
    energy: whether the energy of a call is measured; takes seconds per implementation.
    """

    audit: bool = True
    energy: bool = True


@frozen(kw_only=True)
class Overrides:
    """User's settings in place of a target's declarations.

    baseline: the implementation that counts as the baseline; None takes the declared one.
    tolerance: in place of the benchmark's, with the user's reason; None takes the benchmark's.
    """

    baseline: str | None = None
    tolerance: Tolerance | None = None


@frozen(kw_only=True)
class Options(RunOptions):
    """Options of a run: those of `aiperf run`, and those that only programs set.

    known: the devices and executors to choose from, and the checks of plugins.
    params: override single sizes of the preset.
    stopping: when sampling may end before the budget.
    at_end: what is measured after sampling.
    memory_limit_bytes: the memory limit of a worker on the CPU; None takes most of the free memory.
    answers_only: for tests, whose times say nothing: blocks of one sample, each of which is judged.
    off: guards of the validity registry that are switched off, to prove their effect. The result says so and is
        untrusted.
    candidate: untrusted code, measured in a sandbox against the baseline alone.
    overrides: the baseline and the tolerance that replace the declared ones.
    """

    known: Known = field(factory=Known)
    params: dict[str, float] = field(factory=dict)
    stopping: StoppingRule = field(factory=StoppingRule)
    at_end: AtEnd = field(factory=AtEnd)
    memory_limit_bytes: int | None = None
    answers_only: bool = False
    off: frozenset[str] = frozenset()
    candidate: CandidateSource | None = None
    overrides: Overrides = field(factory=Overrides)

    @property
    def rounds(self) -> int:
        """Rounds of fresh processes."""
        return TIERS[self.tier].rounds

    @property
    def round_budget_s(self) -> float:
        """Seconds of sampling in one round."""
        budget = TIERS[self.tier].budget_s if self.budget_s is None else self.budget_s
        return budget / self.rounds

    @property
    def longest_round_s(self) -> float:
        """Seconds after which sampling in one round ends, decided or not."""
        longest = LONGEST_S / self.rounds if self.until_decided else 0.0
        return max(self.round_budget_s, longest)

    @property
    def controls(self) -> bool:
        """Whether the run has controls."""
        return TIERS[self.tier].controls
