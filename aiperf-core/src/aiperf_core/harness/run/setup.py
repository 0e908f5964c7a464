"""The plan and the setup of a target's run: what it measures, on which device, how code is treated. Neither changes."""

import random
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from attrs import evolve, field, frozen

from aiperf_core.candidate_format import reference_of
from aiperf_core.described import Described, DescribedImplementation, TargetRef
from aiperf_core.devices.device import Device, DeviceKind
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.devices.witness import Quiet
from aiperf_core.events import Progress
from aiperf_core.executor import BUILT_IN, HERE, ExecutorKind, WorkerHandle
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.processes.child import Child, ForkServer
from aiperf_core.harness.run.options import COMPILING, Options
from aiperf_core.measurements import Ceilings
from aiperf_core.requirements import Hardware
from aiperf_core.results.models import Judging
from aiperf_core.simulated import CLOCK, Simulated
from aiperf_core.targets import WORLD_SIZE, Selection

# The part of the samples of trusted code that are compared with the reference.
JUDGED_FRACTION = 0.25
# The name of a candidate's row.
CANDIDATE = "candidate"


@frozen
class Plan:
    """A target that will be run.

    selection: the target and its wanted implementations.
    described: its declarations, as they were before the run.
    device: the name of the device.
    size: the name of the preset, from which `params` come.
    params: the sizes.
    executor: the name of what starts the workers.
    """

    selection: Selection
    described: Described
    device: str
    size: str
    params: dict[str, float]
    executor: str = HERE.name

    @property
    def name(self) -> str:
        """The name of the result: the target's, or that of a sweep's point."""
        return self.selection.name

    @property
    def ref(self) -> TargetRef:
        """The target, as other processes are told of it."""
        return TargetRef(self.name, self.selection.target.module)

    @property
    def world_size(self) -> int:
        """The number of ranks of the workload; 0 for a workload of one process."""
        return int(self.params.get(WORLD_SIZE, 0))

    def implementations(self, options: Options) -> list[DescribedImplementation]:
        """The baseline first; then all others, or the wanted ones and those that they build on."""
        here = self.described.on(self.device)
        if options.candidate is not None:
            return [_baseline(here, options.overrides.baseline), _candidate(options.candidate, self.device)]
        chosen = set(self.selection.implementations)
        for one in reversed(here):
            if one.name in chosen and one.builds_on:
                chosen.add(one.builds_on)
        return [one for one in here if not chosen or one.role == "baseline" or one.name in chosen]


def _baseline(here: list[DescribedImplementation], name: str | None) -> DescribedImplementation:
    """The implementation that a candidate is compared with."""
    one = next(one for one in here if one.name == name or (name is None and one.role == "baseline"))
    return evolve(one, role="baseline", kind=one.kind or "reasonable", builds_on=None)


def _candidate(source: CandidateSource, device: str) -> DescribedImplementation:
    """A candidate as a declared variant."""
    why = f"{source.path.name}, sha256 {source.sha256[:12]}"
    return DescribedImplementation(CANDIDATE, "variant", device, str(source.path), why=why)


@frozen
class Trust:
    """The treatment of the code of a run, of the baseline beside untrusted code too.

    untrusted: nothing that its process says is believed without a view from outside. Each sample has values that no
        other implementation is given, and delivers its output before it is known whether it is judged.
    observed: an observer outside of the processes times the samples.
    own_memory: each process maps inputs and outputs of its own: one that maps a memory file can take its pages from all
        others that map it.
    """

    untrusted: bool = False
    observed: bool = False
    own_memory: bool = False

    def rng(self, seed: int) -> random.Random:
        """Make what draws the values of inputs. Untrusted code must not compute its values from those before them."""
        return random.SystemRandom() if self.untrusted else random.Random(seed)

    def is_judged(self, rng: random.Random) -> bool:
        """Whether a sample is compared with the reference: some by chance, of untrusted code every one."""
        return self.untrusted or rng.random() < JUDGED_FRACTION

    def timeout_s(self, timeout_s: float, *, first: bool) -> float:
        """The seconds that a sample may take. Untrusted code may compile in the `first` call of its process."""
        return timeout_s * (COMPILING if first and self.untrusted else 1)

    def wait_stopped(self, child: WorkerHandle | Child) -> bool:
        """Wait until a process of untrusted code has stopped. Return whether it is one that is stopped."""
        if not self.untrusted or not child.paused:
            return False
        process_monitor.wait_stopped(child.pid)
        return True

    def excused_s(self, own_wait_s: float, others_s: float) -> float:
        """The time in which others kept the supervisor from running.

        Threads of an untrusted process are no excuse: their processor time is taken off.
        """
        return max(0.0, own_wait_s - (others_s if self.untrusted else 0.0))

    def says_something(self, left_s: float) -> bool:
        """Whether an uncounted sample counts, of which this is left when waiting is taken off."""
        return left_s >= 0 or not self.untrusted


class Reporter(Protocol):
    """Hears how a target's run goes on."""

    def phase(self, text: str, implementation: str | None = None) -> None:
        """A new phase, or a step of a phase, begins: `setup: prepare`."""

    def progress(self, state: Progress) -> None:
        """How far the run is: after each phase begins, and at most once a second while samples are taken."""


class MeasureCeilings(Protocol):
    """Returns a device's ceilings."""

    def __call__(self, again: bool, groups: Collection[str] = ()) -> Ceilings | None:
        """Measure what is not kept; `again` measures anew. `groups` are those beyond the basic figures."""


@frozen(kw_only=True, eq=False)
class Setup:
    """One target's run.

    plan: the target with its declarations and sizes.
    device: the device by which other processes load its kind.
    kind: what this process uses the device through.
    hardware: what the implementations' requirements are compared with.
    ceilings: measures those of the device, once more where it is given True, with those of `groups`.
    left_out: optional protections of the sandbox under which the device does not start.
    flush_bound: how much a flush of the caches must write; None where nothing is known.
    server: forks the judge.
    executor: starts the workers.
    log_path: the file for what a process prints, by the name of the process.
    seed: of a run that is trusted.
    before: how long the phases of an earlier run of the target took.
    quiet: the quiet time of the witness on this machine.
    """

    plan: Plan
    options: Options
    device: Device
    kind: DeviceKind
    hardware: Hardware
    ceilings: MeasureCeilings
    left_out: tuple[str, ...]
    flush_bound: FlushBound | None
    server: ForkServer
    executor: ExecutorKind
    log_path: Callable[[str], Path]
    reporter: Reporter
    seed: int
    before: Mapping[str, float] = field(factory=dict)
    quiet: Quiet = field(factory=Quiet)

    @property
    def untrusted(self) -> bool:
        """Whether the run judges an untrusted candidate."""
        return self.options.candidate is not None

    @property
    def trust(self) -> Trust:
        """How the code that is measured is treated."""
        observed = self.untrusted and self.kind.on_host
        return Trust(self.untrusted, observed=observed, own_memory=observed)

    @property
    def foreign(self) -> bool:
        """Whether the workload is a reference that was written for another harness."""
        return reference_of(self.plan.ref.module) is not None

    @property
    def clock(self) -> str:
        """The clock that decides. A processor has no clock apart from the caller's."""
        if self.simulated:
            return CLOCK
        return self.plan.described.clock if self.kind.clock else "wall"

    @property
    def simulated(self) -> Simulated | None:
        """Virtual time that implementations return; None where they are timed."""
        return self.plan.described.simulated

    @property
    def cold(self) -> bool:
        """Whether the cache is flushed before each sample."""
        return self.plan.described.cache == "cold" and self.guards("cold_cache")

    @property
    def pausing(self) -> bool:
        """Whether processes are stopped while another one is measured.

        On a processor, threads of a process that has finished spin for a while and take time from the next process. An
        untrusted candidate must not work while no clock runs, and its baseline must bear the same cost of stopping.
        """
        return self.kind.on_host or self.untrusted

    @property
    def witnessed(self) -> bool:
        """Whether the witness runs before samples by the wall clock: of trusted code, in one process here."""
        here = self.plan.executor in BUILT_IN and not self.plan.world_size
        return here and self.clock == "wall" and not self.untrusted and self.guards("conditions")

    @property
    def floors(self) -> bool:
        """Whether implementations are timed at the sizes of the host floor too."""
        return bool(self.plan.described.floor) and self.clock == "wall" and not self.untrusted

    @property
    def memory_decides(self) -> bool:
        """True where the memory of all calls of untrusted code decides its verdict.

        Malloc then gives back freed memory in all calls, of the baseline too: gaps in the heap would count.
        """
        return self.untrusted and self.plan.described.goal == "memory"

    @property
    def watches_calls(self) -> bool:
        """Whether work beside the calls can be found.

        The process must be stopped at other times, and its clock compared with the supervisor's: time that a lying
        clock leaves out of a call would seem to be work beside it.
        """
        timed = not self.plan.world_size and not self.simulated
        return self.guards("process_census", "clocks_agree") and self.pausing and timed

    @property
    def resamples(self) -> bool:
        """Whether more samples are taken of a suspected implementation before a finding.

        An observer's samples are judged by what all of them show of processor time while the process was stopped.
        """
        beside_calls = self.watches_calls and not self.trust.observed
        return beside_calls or (self.plan.world_size > 0 and self.clock == "wall")

    @property
    def in_batches(self) -> bool:
        """Whether a gain by the device's clock, which the code's own process reads, is confirmed by batches."""
        outside = self.trust.untrusted and not self.trust.observed
        return outside and self.clock == "device" and self.guards("clocks_agree")

    @property
    def judging(self) -> Judging:
        """Rules by which the observations are judged."""
        return Judging(
            self.options.policy,
            sorted(self.options.off),
            self.watches_calls,
            self.resamples,
            exact_quantiles=True,
        )

    def guards(self, *names: str) -> bool:
        """Whether none of these guards is switched off."""
        return self.options.off.isdisjoint(names)

    def source_of(self, declared: DescribedImplementation) -> CandidateSource | None:
        """The candidate's code, where the implementation is the untrusted candidate."""
        source = self.options.candidate
        return source if source is not None and declared.where == str(source.path) else None
