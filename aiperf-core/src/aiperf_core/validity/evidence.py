"""What a check may look at: what was seen of one implementation, by whom, and of the machine around it.

Records only, as plain data, so that evidence can be recorded, stored and shown to a check again. What nobody could look at
is None; a check then says that it did not observe.
"""

from typing import Any

from attrs import field, frozen

from aiperf_core.measurements import Audit, Census, Memory, Rank, Samples


@frozen(kw_only=True)
class Conduct:
    """What the harness itself did: samples taken and kept, its plan and its sources before and after."""

    samples_taken: int
    samples_kept: int
    passes: int
    least_passes: int
    statistic: str
    planned_order: list[str]
    order: list[str]
    options_before: str
    options_after: str
    sources_before: str
    sources_after: str
    seeds: list[int] = field(factory=list)
    judged: int = 0
    profiled_samples: int = 0
    failed_checks: list[str] = field(factory=list)


@frozen(kw_only=True)
class Evidence:
    """Of one implementation.

    state_before, state_after: what `harness.state.snapshot` saw in the worker's process before the implementation's code was
    imported and after its last call; claims of that process, unlike the rest. repeated_s: times of calls that repeat the
    values of the call before them, beside fresh_s, those of the calls before. aliases: paths of the output that lie in the
    memory of inputs which are not state. machine: facts about the machine, see `validity.machine`. versions: of libraries and
    drivers as this worker has them, and manifest_versions as the supervisor has. lossy: it changes the answer by design, within a
    budget that the judge holds it to. wire_bytes: what each rank must send in a call, as the workload declares it; 0 where it does
    not. memory: what it took at most. baseline: the same of the baseline.
    """

    name: str
    role: str
    device: str
    clock: str
    cache: str
    samples: Samples = field(factory=Samples)
    audit: Audit | None = None
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None
    census: list[Census] | None = None
    repeated_s: list[float] = field(factory=list)
    fresh_s: list[float] = field(factory=list)
    aliases: list[str] | None = None
    machine: dict[str, Any] = field(factory=dict)
    versions: dict[str, str] | None = None
    manifest_versions: dict[str, str] | None = None
    ranks: list[Rank] | None = None
    world_size: int = 1
    lossy: bool = False
    wire_bytes: float = 0.0
    conduct: Conduct | None = None
    memory: Memory | None = None
    baseline: "Evidence | None" = None
