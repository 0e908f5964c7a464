"""Profiler: a profiling tool, and `Tool`, the protocol of the class that it names.

A profile is a pass of its own. For each implementation a fresh process makes the inputs, prepares the implementation,
warms it up and then calls it several times under the tool. Plugins list `Profiler` and `MetricSet` records; nothing
else is imported before a profile is requested.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from attrs import Attribute, field, frozen

from aiperf_core.contributed import as_names, class_path, named, one_line, resolve

_WORDS = "letters, digits, hyphens and '_' can, such as 'nsys'"


@frozen(kw_only=True)
class Hot:
    """A hot spot: all kernels, copies, fills, operators or symbols of one name.

    name: as the tool reports it.
    kind: `kernel`, `copy`, `fill`, `operator` or `symbol`.
    count, seconds, bytes: the average of one call.
    share: of the seconds of all hot spots, from 0 to 1.
    by: the operator that launched it.
    metrics: values of the tool by the names of `figures`, or by the tool's own names.
    """

    name: str
    kind: str
    count: float | None = None
    seconds: float | None = None
    share: float | None = None
    bytes: float | None = None
    by: str | None = None
    metrics: dict[str, float] = field(factory=dict)


@frozen(kw_only=True)
class Observed:
    """The observations of a tool.

    version: of the tool.
    hot: the hot spots, the longest first.
    figures: of one call, by the names of `figures`.
    words: values that are no numbers, such as `occupancy_limiter`.
    missing: what the tool does not offer, or could not tell here, with the reason.
    files: the files in its folder to keep.
    notes: what a reader of the figures must know.
    """

    version: str
    hot: list[Hot] = field(factory=list)
    figures: dict[str, float] = field(factory=dict)
    words: dict[str, str] = field(factory=dict)
    missing: dict[str, str] = field(factory=dict)
    files: list[str] = field(factory=list)
    notes: list[str] = field(factory=list)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.replace("-", "").replace("_", "").isalnum() and not value.startswith("-")


@frozen(kw_only=True)
class Job:
    """An implementation to profile.

    target, module, implementation: its names.
    device: the name of the device.
    params: the sizes.
    cache: `cold` or `warm`, as declared. `cold` flushes the caches before each call, unseen by the tool if possible.
    threads: the number of CPUs to pin to; None for all.
    metrics: the metrics of `--metrics`; empty for the tool's own choice.
    """

    target: str
    module: str
    implementation: str
    device: str
    params: dict[str, float]
    cache: str
    threads: int | None = None
    metrics: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name of the NVTX range around each call."""
        return f"{self.target}:{self.implementation}"


class Tool(Protocol):
    """The class of a profiler. The command's process and the profiled process each make a `Tool(job)` for a job.

    A class may derive from it to get the defaults below.

    pace: the number of calls in a pass.
    """

    pace: "Pace"
    job: Job

    def __init__(self, job: Job) -> None:
        """Keep the job in `job`. Look for nothing yet."""
        self.job = job

    def unavailable(self) -> str | None:
        """Why the tool cannot profile this job here, with the remedy; None when it can. In the command's process."""

    def commands(self, argv: Sequence[str], folder: Path) -> list[list[str]]:
        """The command lines to run one after the other. In the command's process.

        `argv` starts the profiled process. A tool that is a program of its own puts itself before it; the default
        `[argv]` is for a tool that works within the process. Files go to `folder`, which exists.
        """
        return [[*argv]]

    def window(self, folder: Path) -> "Window":
        """The frame around the calls. In the profiled process."""

    def remedy(self, log: str) -> str | None:
        """The remedy for a problem in the output of a command, such as a missing right; None for no problem."""
        return None

    def summarise(self, folder: Path, calls: int) -> Observed:
        """Read the tool's files of `calls` calls from `folder`. In the command's process.

        Raises `AiperfError` with the remedy when they are not complete.
        """


class Window(Protocol):
    """Frames the calls of a pass in the profiled process. A class may derive from it to get empty frames."""

    def whole(self) -> AbstractContextManager[None]:
        """Around all calls, after the warm-up. Work between calls (flushing, restoring inputs) is inside."""
        return nullcontext()

    def call(self) -> AbstractContextManager[None]:
        """Around one call, or several in a row; it ends when the device is idle."""
        return nullcontext()


@frozen
class Pace:
    """The length of a pass.

    windows: the number of windows.
    seconds: the budget; a pass has fewer windows, at least one, to keep it.
    window_s: a window repeats short calls to fill this time, for tools that are slow to start and stop. All calls of a
        window but the first find warm caches.
    clocked: the host's clock is meaningful under the tool.
    """

    windows: int
    seconds: float
    window_s: float = 0.0
    clocked: bool = True


@frozen
class Profiler:
    """A tool of `aiperf profile`. A field that breaks a rule raises `ValueError`, which sets the plugin aside.

    name: as in `--tool`.
    summary: one line.
    load: the class of a `Tool`, `"package.module:Class"`, imported at the first use.
    """

    name: str = field(validator=named("profiler", _is_word, _WORDS))
    summary: str = field(validator=one_line("profiler"))
    load: str = field(validator=class_path("profiler"))

    def resolve(self) -> "type[Tool]":
        """Import the class of the tool. Raises what the import raises."""
        found: type[Tool] = resolve(self.load)
        return found


@frozen
class MetricSet:
    """A set of metrics for `aiperf profile --metrics NAME`.

    name: as in `--metrics`.
    tool: the name of the profiler.
    metrics: their names in the spelling of the tool.
    summary: one line.
    """

    name: str = field(validator=named("metric set", _is_word, _WORDS))
    tool: str = field()
    metrics: tuple[str, ...] = field(converter=as_names)
    summary: str = field(validator=one_line("metric set"))

    @metrics.validator
    def _check_metrics(self, _: "Attribute[tuple[str, ...]]", value: tuple[object, ...]) -> None:
        for metric in value or ("",):
            if not isinstance(metric, str) or not metric or metric.startswith("-") or set(metric) & set(", \t\n"):
                raise ValueError(
                    f"metric set {self.name!r} needs metrics=('name', ...), each without blanks and commas; "
                    f"found {metric!r}"
                )
