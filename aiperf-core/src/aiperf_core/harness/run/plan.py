"""The plan of a target's run: the target, its device and sizes, and the implementations that are measured."""

from attrs import evolve, frozen

from aiperf_core.described import Described, DescribedImplementation, TargetRef
from aiperf_core.executor import HERE
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.run.options import Options
from aiperf_core.targets import WORLD_SIZE, Selection

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
