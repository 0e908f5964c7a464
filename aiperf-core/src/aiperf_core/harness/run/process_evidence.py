"""Evidence of an implementation's process for the checks, and what the process says of itself."""

from typing import Any

from attrs import define, field

from aiperf_core.harness.isolation.mapped_code import Mapped
from aiperf_core.measurements import Census, Faults
from aiperf_core.validity.checks.global_state import changes
from aiperf_core.validity.checks.repeat_against_fresh import gains


@define(eq=False)
class ProcessEvidence:
    """What is seen of an implementation's processes, beside its samples.

    repeated_s, fresh_s: times of calls on repeated inputs, and on refreshed inputs.
    aliases: paths of its outputs that lay in the memory of inputs; None before an output was judged.
    state_before, state_after: the snapshots of the first round in which it changed something, or else of the last one.
    declared_to_worker: what the benchmark declares in its process; None for a candidate.
    mapped: compiled code that its processes have mapped.
    census: its process between two calls.
    faults: its page faults in each counted sample that an observer timed.
    """

    repeated_s: list[float] = field(factory=list)
    fresh_s: list[float] = field(factory=list)
    aliases: list[str] | None = None
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None
    declared_to_worker: dict[str, Any] | None = None
    mapped: Mapped | None = None
    census: list[Census] = field(factory=list)
    faults: list[Faults] = field(factory=list)

    def begin(self, state: dict[str, Any]) -> None:
        """Keep the first snapshot of a new process. Snapshots of an earlier process that changed something are kept."""
        if not self._changed:
            self.state_before, self.state_after = state, None

    def end(self, state: dict[str, Any] | None) -> None:
        """Keep the snapshot after the last call of the process; None where it made none."""
        if not self._changed:
            self.state_after = state

    @property
    def gains_by_repeating(self) -> bool:
        """Whether calls on repeated inputs are faster, if warm caches do not explain it."""
        return gains(self.repeated_s, self.fresh_s)

    @property
    def _changed(self) -> bool:
        """Whether a process of this run changed something."""
        before, after = self.state_before, self.state_after
        return before is not None and after is not None and bool(changes(before, after))
