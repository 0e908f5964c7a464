"""Pictures of what makes a target fast, made from its declarations and its kernels.

Addresses come from an evaluation of the kernel's source for one warp, waves from the compiler's resources, bytes from
both. Where something cannot be evaluated, the picture is missing; it is never a guess.
"""

from collections.abc import Sequence

from aiperf_core.benchmark import Benchmark, Params
from aiperf_core.report.result import Drawing
from aiperf_core.stats.expectations import source_of
from aiperf_core.targets import InstalledTarget
from aiperf_learn.mechanisms import addresses, bounds, traffic, waves
from aiperf_learn.mechanisms.rehearsal import Launch, launches, reader_of, sources_of, traced
from aiperf_learn.mechanisms.warp import Trace
from aiperf_learn.pages.stored import stored


def drawings(target: InstalledTarget, benchmark: Benchmark) -> list[Drawing]:
    """The pictures of a target's mechanism, the most telling first; none where nothing can be told.

    Imports torch and evaluates kernels: up to some seconds a target.
    """
    sizes = benchmark.task.presets.get("cuda")
    if sizes is None:
        return []
    known = next((each for each in stored(target, source_of(target)) if each.device == "cuda"), None)
    figures = known.figures if known else {}
    made: list[Launch] = []
    if sources := sources_of(target.module):
        for implementation in benchmark.implementations_on("cuda"):
            made += launches(benchmark, implementation, sources, sizes)[0]
    names = [_name(launch, made) for launch in made]
    traces = _traces(benchmark, sizes, names, made)
    drawn = [
        addresses.shared_drawing(target.name, traces),
        addresses.global_drawing(target.name, traces),
        *traffic.drawings(target.name, benchmark, made, sizes, figures),
        _waves(target, names, made),
        *bounds.amounts(target.name, benchmark, sizes),
        bounds.resources(target.name, benchmark, sizes),
    ]
    if known:
        drawn.append(bounds.reached(target.name, benchmark, sizes, known.hardware, known.date, figures))
    return [drawing for drawing in drawn if drawing is not None]


def _waves(target: InstalledTarget, names: Sequence[str], made: Sequence[Launch]) -> Drawing | None:
    held = [(name, waves.waves(launch)) for name, launch in zip(names, made, strict=True)]
    fits = [(name, each) for name, each in held if each]
    return waves.drawing(target.name, fits) if fits else None


def _name(launch: Launch, among: list[Launch]) -> str:
    """The implementation of a launch, with the kernel where it makes several."""
    kernels = {other.recorded.kernel for other in among if other.implementation == launch.implementation}
    return launch.implementation if len(kernels) == 1 else f"{launch.implementation} ({launch.recorded.kernel})"


def _traces(
    benchmark: Benchmark, sizes: Params, names: Sequence[str], made: Sequence[Launch]
) -> list[tuple[str, Trace]]:
    """The accesses of launches; with the values of inputs where addresses need them."""
    traces = [traced(launch) for launch in made]
    needy = [launch.is_ready and trace.needs_values for launch, trace in zip(made, traces, strict=True)]
    if any(needy) and (reader := reader_of(benchmark, sizes)):
        again = zip(made, traces, needy, strict=True)
        traces = [traced(launch, reader) if needs_them else trace for launch, trace, needs_them in again]
    return list(zip(names, traces, strict=True))
