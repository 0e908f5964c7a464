"""The results of another tool, with the statistics that it wrote and no others."""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words

# The statistics that stand for a benchmark, the first one that there is.
USUAL = ("median", "mean", "value")


class ForeignError(AiperfError):
    """A file is not a result that can be read. The message names the file."""


@frozen(kw_only=True)
class Figure:
    """A figure of a benchmark.

    name: of the benchmark with its parameters, as the tool prints it.
    quantity: such as `time` or `CPU time`.
    unit: `s`, `B`, or the tool's own; empty where the file does not say.
    statistics: by name, such as `mean`, `median`, `min`, `stddev`; `value` where the tool does not say.
    samples: the values that the statistics are of, where the file has them.
    """

    name: str
    quantity: str = "time"
    unit: str = "s"
    statistics: dict[str, float]
    samples: tuple[float, ...] = ()

    @property
    def title(self) -> str:
        """The name, with the quantity where it is another than time."""
        return self.name if self.quantity == "time" else f"{self.name} ({self.quantity})"

    def statistic(self, wanted: str | None = None) -> str | None:
        """The wanted statistic, or else the usual one; None where the figure has none."""
        return next((name for name in ((wanted,) if wanted else USUAL) if name in self.statistics), None)


@frozen(kw_only=True)
class Results:
    """The results of one file.

    created: when they were measured, as ISO 8601; of a file that does not say, when it was last changed.
    figures: those that can be used.
    skipped: what the tool itself skipped, with its reason, by name.
    problems: sentences on benchmarks whose figures cannot be used.
    """

    tool: str
    created: str
    figures: list[Figure]
    version: str = ""
    commit: str = ""
    machine: str = ""
    skipped: dict[str, str] = field(factory=dict)
    problems: list[str] = field(factory=list)

    def checked(self) -> "Results":
        """The results without benchmarks of one name, and without figures that no benchmark can have."""
        counts = Counter(figure.title for figure in self.figures)
        problems = [
            f"{words(name)!r} stands {count} times, so that nothing tells which is which; give each a name of its own"
            for name, count in counts.items()
            if count > 1
        ]
        kept = []
        for one in self.figures:
            if counts[one.title] > 1:
                continue
            if fault := _fault(one):
                problems.append(f"{words(one.title)!r} has {fault}")
            else:
                kept.append(one)
        return evolve(self, figures=kept, problems=[*self.problems, *problems])


def _fault(figure: Figure) -> str:
    """The fault of a figure; empty for none."""
    chosen = figure.statistic()
    if chosen is None:
        return f"neither {', '.join(USUAL[:-1])} nor another figure"
    value = figure.statistics[chosen]
    if not math.isfinite(value):
        return f"a {chosen} of {value}"
    if figure.quantity.endswith("time") and value <= 0:
        return f"a {chosen} of {value:g} s, which no run takes"
    return ""


@frozen
class Document:
    """A JSON document that is read field by field. What it lacks is told with its place.

    place: within the file, such as `benchmarks[2].stats`.
    """

    path: Path
    data: Any
    place: str = ""

    def error(self, problem: str) -> ForeignError:
        """An error on this place."""
        sentence = f"{words(self.place)} {problem}".strip()
        return ForeignError(f"'{words(str(self.path))}': {sentence}.")

    def at(self, key: str) -> "Document":
        """The value of a key. Raises ForeignError where there is none."""
        if not isinstance(self.data, Mapping):
            raise self.error("is no object")
        if key not in self.data:
            raise self.error(f"has no {key!r}")
        return Document(self.path, self.data[key], f"{self.place}.{key}".lstrip("."))

    def get(self, key: str, default: Any = None) -> Any:
        """The plain value of a key, which may be missing."""
        return self.data.get(key, default) if isinstance(self.data, Mapping) else default

    @property
    def parts(self) -> list["Document"]:
        """The elements of a list. Raises ForeignError where it is none."""
        if not isinstance(self.data, list):
            raise self.error("is no list")
        return [Document(self.path, one, f"{self.place}[{number}]") for number, one in enumerate(self.data)]

    @property
    def number(self) -> float:
        """A number, also one that is written as a text. Raises ForeignError for anything else."""
        if isinstance(self.data, int | float | str) and not isinstance(self.data, bool):
            try:
                return float(self.data)
            except ValueError:
                pass
        raise self.error("is no number")

    @property
    def text(self) -> str:
        """A text. Raises ForeignError for anything else."""
        if not isinstance(self.data, str):
            raise self.error("is no text")
        return self.data

    def numbers(self, *keys: str, scale: float = 1.0) -> dict[str, float]:
        """The numbers of those keys that are there and not null."""
        return {key: self.at(key).number * scale for key in keys if self.get(key) is not None}

    def needs_version(self, found: Any, accepted: int, tool: str) -> None:
        """Raise ForeignError for another version of the format than the accepted one."""
        if found != accepted:
            raise self.error(f"the format of {tool} has version {found!r}; this aiperf reads version {accepted}")


def chosen(figure: Figure, wanted: str | None) -> str:
    """The statistic that was asked for. Raises UsageError where the figure has no such one."""
    found = figure.statistic(wanted)
    if found is None:
        there = ", ".join(figure.statistics)
        raise UsageError(f"{words(figure.title)!r} has no {wanted!r}; it has {there}.")
    return found
