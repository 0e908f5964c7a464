"""Records of runs of cases: what a run depends on, what it said, and why there is none."""

from attrs import frozen

from aiperf_core import units
from aiperf_core.results.models import Row, Verdict
from aiperf_core.selftest.outcomes import Outcome
from aiperf_core.stats.conditions import BACKGROUND
from aiperf_core.validity.cases import WORD

# Beyond this gain an INCONCLUSIVE end says that the machine is noisy, and not that there is no gain.
CLEAR = 2.0
# In a run that is shared, an end that says nothing counts as no gain up to here; beyond, the case gets a run of its
# own.
NO_GAIN = 1.05
_COMPARED = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.INCONCLUSIVE)


class NotTriedError(Exception):
    """A case could not be tried."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


@frozen
class Run:
    """What a run said of the baseline and of the case's implementation.

    crowd: how many cases it was shared with.
    beside: whether another run was made beside it.
    load: the share of the processors that others used meanwhile; None where it is not known.
    """

    baseline: Row
    row: Row
    crowd: int = 1
    beside: bool = False
    load: float | None = None

    def __str__(self) -> str:
        speedup = f" {self.row.speedup.value:.3g}x" if self.row.speedup and self.row.verdict in _COMPARED else ""
        usual = {one.issue for one in self.baseline.findings}
        told = ", ".join(one for one in self.issues if one not in usual or one in self.invalid)
        return f"{self.row.verdict}{speedup}" + (f" ({told})" if told else "")

    @property
    def shared(self) -> bool:
        """Whether something else ran with it."""
        return self.crowd > 1 or self.beside

    @property
    def issues(self) -> list[str]:
        """The issues that were found in the implementation."""
        return list(dict.fromkeys(one.issue for one in self.row.findings))

    @property
    def invalid(self) -> list[str]:
        """Those of them that make a row invalid."""
        return [one.issue for one in self.row.findings if one.severity == "invalid"]

    @property
    def has_word(self) -> bool:
        """Whether the implementation wrote that it has what it was after."""
        return any(WORD in line for line in self.row.log)

    @property
    def is_noisy(self) -> bool:
        """Whether noise hides a gain that an attack may well have: this machine is too busy to tell."""
        speedup = self.row.speedup
        return self.row.verdict is Verdict.INCONCLUSIVE and speedup is not None and speedup.value > CLEAR

    @property
    def is_unsure(self) -> bool:
        """Whether more samples might show a gain."""
        speedup = self.row.speedup
        return self.row.verdict is Verdict.INCONCLUSIVE and (speedup is None or speedup.value > NO_GAIN)

    @property
    def disturbed(self) -> str:
        """What other processes did meanwhile; empty on a quiet machine."""
        if self.load is not None:
            busy = self.load > BACKGROUND
            return f"other processes kept {units.percent(self.load)} of the processors busy" if busy else ""
        every = (one for row in (self.row, self.baseline) for one in row.findings)
        return next((one.message for one in every if one.issue == "environment.background_load"), "")

    def tells_of(self, issue: str) -> bool:
        """Whether an issue was found, in the implementation or in the baseline."""
        return any(one.issue == issue for row in (self.row, self.baseline) for one in row.findings)


@frozen(kw_only=True)
class RunKey:
    """What a run depends on: runs with equal keys say the same.

    names: the implementations beside the baseline.
    candidate: whether the implementation is judged as untrusted code.
    one_process: whether the harness is the one of one process.
    off: the guards that are switched off.
    light: whether ceilings are known.
    longer: how many times as long as usual.
    """

    module: str
    device: str
    names: frozenset[str]
    candidate: bool = False
    one_process: bool = False
    tier: str = "quick"
    off: frozenset[str] = frozenset()
    light: bool = False
    longer: float = 1.0


@frozen
class Made:
    """A run that was made: its rows by their names, the baseline's first.

    beside: whether another run was made beside it.
    unclaimed_s: how long it took, until a case has used it.
    load: as in `Run`.
    """

    rows: dict[str, Row]
    beside: bool = False
    unclaimed_s: float = 0.0
    load: float | None = None
