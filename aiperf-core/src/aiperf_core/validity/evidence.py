"""Evidence of a check: observations of one implementation, its process, and the machine around it.

Records only, as plain data, so that evidence can be stored and shown to a check again. A field that nothing could be
read for is None; a check then says that it did not observe.
"""

from typing import Any

from attrs import field, frozen

from aiperf_core.measurements import Audit, Census, Faults, Memory, Rank, Samples


@frozen(kw_only=True)
class SelfCheck:
    """The harness's record of its own work for one implementation.

    seeds: of all values that the run drew, in the order in which they were drawn.
    declared: what the benchmark declares, by the process that imported it: `run` (before sampling), `judge`, `worker`.
    """

    seeds: list[int] = field(factory=list)
    declared: dict[str, dict[str, Any]] = field(factory=dict)


@frozen(kw_only=True)
class Evidence:
    """Evidence about one implementation.

    name, role, device, clock, cache: as declared.
    samples: all samples that were timed and counted.
    audit: what CUPTI saw of a few calls.
    state_before, state_after: the worker's snapshot of its own process (`process_state.snapshot`) before the import of
        the implementation and after its last call. A claim of that process, unlike all other fields.
    census: the worker's process between two calls, as the kernel shows it.
    faults: page faults of its process in each sample that an observer timed. Of untrusted code they are a claim.
    repeated_s, fresh_s: times of calls on repeated inputs, and of calls on refreshed inputs.
    aliases: paths of the output that lie in the memory of inputs which are not state.
    machine: facts about the machine, see `devices.environment.facts`.
    libraries: shared libraries that the worker's process has mapped, as the kernel lists them: by name, the path of
        each build by its fingerprint.
    extensions: paths of other compiled modules that it has mapped and that belong to no installed package.
    server_libraries: the libraries of the process that workers are forked from.
    ranks: what each of several ranks did; None for one process.
    world_size: the number of ranks.
    lossy: whether it changes the answer by design, within a budget that the judge holds it to.
    wire_bytes: what each rank must send in a call, as the workload declares it; 0 where it does not.
    self_check: the harness's record of its own work.
    memory: what it took at most.
    baseline: the same of the baseline; None in the baseline's own evidence.
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
    faults: list[Faults] = field(factory=list)
    repeated_s: list[float] = field(factory=list)
    fresh_s: list[float] = field(factory=list)
    aliases: list[str] | None = None
    machine: dict[str, Any] = field(factory=dict)
    libraries: dict[str, dict[str, str]] | None = None
    extensions: list[str] | None = None
    server_libraries: dict[str, dict[str, str]] | None = None
    ranks: list[Rank] | None = None
    world_size: int = 1
    lossy: bool = False
    wire_bytes: float = 0.0
    self_check: SelfCheck | None = None
    memory: Memory | None = None
    baseline: "Evidence | None" = None
