"""The setup of a target's run: what it measures, on which device, with which options. It does not change in the run."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from aiperf_core.candidate_format import reference_of
from aiperf_core.described import DescribedImplementation
from aiperf_core.devices.device import Device, DeviceKind
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.events import Progress
from aiperf_core.executor import ExecutorKind
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.durations import Durations
from aiperf_core.harness.run.judge_process import NextJudge
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.plan import Plan
from aiperf_core.harness.run.trust import Observed, Trusted, Untrusted
from aiperf_core.measurements import Ceilings
from aiperf_core.requirements import Hardware
from aiperf_core.results.models import Judging


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
class MachineFacts:
    """What a machine tells of the device of a run.

    hardware: what the implementations' requirements are compared with.
    ceilings: measures them, once more where it is given True, with those of `groups` (`wire`, `disk`).
    left_out: optional protections of the sandbox under which the device does not start.
    flush_bound: how much a flush of the caches must write; None where nothing is known.
    """

    hardware: Hardware
    ceilings: MeasureCeilings
    left_out: tuple[str, ...]
    flush_bound: FlushBound | None


@frozen(kw_only=True, eq=False)
class Setup:
    """One target's run.

    plan: the target with its declarations and sizes.
    device: the device by which other processes load its kind.
    kind: what this process uses the device through.
    machine: what the machine tells of the device.
    server: forks the judge.
    executor: starts the workers.
    log_path: the file for what a process prints, by the name of the process.
    seed: of a run that is trusted.
    before: how long the phases of an earlier run of the target took.
    sources: the hashes of the packages in which the target lies.
    next_judge: the judge that is started ahead, where the processes stay warm.
    """

    plan: Plan
    options: Options
    device: Device
    kind: DeviceKind
    machine: MachineFacts
    server: ForkServer
    executor: ExecutorKind
    log_path: Callable[[str], Path]
    reporter: Reporter
    seed: int
    before: Durations = field(factory=dict)
    sources: Mapping[str, str] = field(factory=dict)
    next_judge: NextJudge | None = None

    @property
    def untrusted(self) -> bool:
        """Whether the run judges an untrusted candidate."""
        return self.options.candidate is not None

    @property
    def trust(self) -> Trusted:
        """How the code that is measured is treated."""
        if not self.untrusted:
            return Trusted()
        return Observed() if self.kind.on_host else Untrusted()

    @property
    def foreign(self) -> bool:
        """Whether the workload is a reference that was written for another harness."""
        return reference_of(self.plan.ref.module) is not None

    @property
    def clock(self) -> str:
        """The clock that decides. A processor has no clock apart from the caller's."""
        return self.plan.described.clock if self.kind.clock else "wall"

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
        return self.guards("process_census", "clocks_agree") and self.pausing and not self.plan.world_size

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
        return self.trust.in_batches and self.clock == "device" and self.guards("clocks_agree")

    @property
    def judging(self) -> Judging:
        """What decides how the observations are judged."""
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
