"""What a profiler is to aiperf: a record that a plugin contributes, and the protocol of what the record names.

A profile is a pass of its own. For each implementation a fresh process makes the inputs, prepares the implementation, warms
it up and then calls it some times under the tool. `Profiler` and `MetricSet` are what plugins list; nothing else is imported
before a profile is asked for.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from attrs import Attribute, field, frozen

from aiperf_core.contributed import class_path, named, one_line, resolve

_WORDS = "letters, digits, hyphens and '_' can, such as 'nsys'"


@frozen(kw_only=True)
class Hot:
    """Something that takes time: a kernel, a copy, a fill, an operator or a symbol, all of one name together.

    count, seconds, bytes: in one call, on average. share: of the seconds of all, from 0 to 1. by: the operator that launched it.
    metrics: of the tool's, by the names of `figures`, or by the tool's own where it has none there.
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
    """What a tool saw.

    version: the tool's. hot: the longest first. figures: of one call, by the names of `figures`. words: what is no number,
    such as `occupancy_limiter`. missing: what it does not offer, or could not tell here, with the reason. files: what it left in
    its folder that is worth keeping. notes: what a reader must know to read the figures.
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
    """One implementation that is to be profiled.

    target, module, implementation: what. device: its name. params: the sizes. cache: `cold` or `warm`, as declared;
    with a cold cache the caches are flushed before each call, outside of the tool's view where the tool allows it.
    metrics: the metrics that the user chose by `--metrics`, or none for the tool's own choice.
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
    """What a profiler does. It is made anew for each job, `Tool(job)`, in the command's process and in the profiled one.

    pace: how many calls it is shown.
    """

    pace: "Pace"

    def __init__(self, job: Job) -> None:
        """Take the job. Nothing is looked for yet."""

    def unavailable(self) -> str | None:
        """Why the tool cannot look at this job here, with the remedy; None where it can. In the command's process."""

    def commands(self, argv: Sequence[str], folder: Path) -> list[list[str]]:
        """The command lines to run, each in its turn, in the command's process.

        `argv` starts the profiled process. A tool that is a program of its own puts itself before it; one that works in the
        process returns `[argv]`. Files go to `folder`, which exists.
        """

    def window(self, folder: Path) -> "Window":
        """What frames the calls, in the profiled process."""

    def remedy(self, log: str) -> str | None:
        """What to do about something that was printed by a command, such as a right that is missing; None for nothing."""

    def summarise(self, folder: Path, calls: int) -> Observed:
        """Read what the tool left in `folder`, in the command's process. `calls` were made.

        Raises `AiperfError` with the remedy where it is not whole.
        """


class Window(Protocol):
    """Frames the calls of a pass in the profiled process: once around all of them, and once around each."""

    def whole(self) -> AbstractContextManager[None]:
        """Around all calls, after the warm-up. What is done between calls (flushing, restoring inputs) is inside."""

    def call(self) -> AbstractContextManager[None]:
        """Around one call, or several in a row; it ends when the device is idle."""


@frozen
class Pace:
    """How many windows a pass has: `windows`, or fewer, and at least one, when they would take longer than `seconds`.

    A window has one call, or as many in a row as fill `window_s`, for tools whose starting and stopping costs more than a
    short call does. Calls in a row find warm caches. `clocked` says whether the host's clock means anything under the tool.
    """

    windows: int
    seconds: float
    window_s: float = 0.0
    clocked: bool = True


@frozen
class Profiler:
    """A tool that `aiperf profile --tool NAME` may use.

    `load` is `"package.module:Class"` of a `Tool`, imported when the tool is used. A profiler that breaks a rule below raises
    `ValueError`, which sets its plugin aside.
    """

    name: str = field(validator=named("profiler", _is_word, _WORDS))
    summary: str = field(validator=one_line("profiler"))
    load: str = field(validator=class_path("profiler"))

    def resolve(self) -> "type[Tool]":
        """Import the tool's class. Raises whatever the import raises."""
        found: type[Tool] = resolve(self.load)
        return found


def _as_names(value: str | Iterable[str]) -> tuple[str, ...]:
    """Take `("cycles")`, which Python reads as a string, for the tuple that its author meant."""
    return (value,) if isinstance(value, str) else tuple(value)


@frozen
class MetricSet:
    """Metrics of a tool that belong together, chosen by `aiperf profile --metrics NAME`.

    `tool` is the profiler that knows them, and `metrics` their names in the tool's own spelling.
    """

    name: str = field(validator=named("metric set", _is_word, _WORDS))
    tool: str = field()
    metrics: tuple[str, ...] = field(converter=_as_names)
    summary: str = field(validator=one_line("metric set"))

    @metrics.validator
    def _check_metrics(self, _: "Attribute[tuple[str, ...]]", value: tuple[object, ...]) -> None:
        for metric in value or ("",):
            if not isinstance(metric, str) or not metric or metric.startswith("-") or set(metric) & set(", \t\n"):
                raise ValueError(
                    f"metric set {self.name!r} needs metrics=('name', ...), each without blanks and commas; found {metric!r}"
                )
