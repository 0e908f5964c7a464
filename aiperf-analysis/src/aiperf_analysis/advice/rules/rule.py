"""A rule of `aiperf explain`: a condition on the figures of a row or of its profile, and the advice that follows."""

from collections.abc import Callable, Mapping
from typing import Literal

from attrs import frozen

from aiperf_analysis.selection import Entry
from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.profiling.models import Profile
from aiperf_core.report.result import Figure
from aiperf_core.results.models import Row, TargetResult

# The figures by which a rule applies, by name; the first is the main one.
Evidence = Mapping[str, Figure]
# What has the figures of a rule: the row itself, or a profile by one of the tools.
Source = Literal["row", "torch", "nsys", "ncu", "perf"]


@frozen(eq=False)
class Subject:
    """What rules look at: a believed row, and its profiles by the name of the tool."""

    entry: Entry
    profiles: Mapping[str, Profile]

    @property
    def row(self) -> Row:
        """The row."""
        return self.entry.row

    @property
    def result(self) -> TargetResult:
        """The result of its target."""
        return self.entry.result

    @property
    def ceilings(self) -> Ceilings | None:
        """What its device was measured to reach."""
        return self.entry.ceilings

    @property
    def baseline(self) -> Row | None:
        """The baseline of its target; None for the baseline itself."""
        found = self.entry.baseline
        return None if found is None or found.name == self.row.name else found


@frozen(kw_only=True)
class Rule:
    """A rule.

    name: unique, with the group of its figures before a dot, such as `row.throttled`.
    needs: `row`, or the tools one of whose profiles is needed.
    fact: what its condition says, as a sentence.
    advice: what to try next.
    targets: benchmarks that measure the effect of the advice.
    find: the evidence; None where the condition does not hold or a figure is missing.
    """

    name: str
    fact: str
    advice: str
    targets: tuple[str, ...] = ()
    needs: tuple[Source, ...] = ("row",)
    find: Callable[[Subject], Evidence | None]


def counted(value: float, unit: str = "1") -> Figure:
    """A figure without an interval: a count, or an average over the calls of a profiler."""
    return Figure(value=value, unit=unit, certainty="counted")


def share(value: float, low: float | None = None, high: float | None = None) -> Figure:
    """A part of a whole, shown in percent."""
    if low is None or high is None:
        return counted(100 * value, "%")
    return Figure(value=100 * value, low=100 * low, high=100 * high, unit="%", certainty="derived")


def measured(estimate: Estimate, unit: str = "s") -> Figure:
    """A measured figure with its interval."""
    return Figure(value=estimate.value, low=estimate.low, high=estimate.high, unit=unit)


def quotient(one: Estimate, other: Estimate) -> Figure:
    """One figure divided by another. The interval holds every quotient of the two intervals, so it is a wide one."""
    return Figure(
        value=one.value / other.value, low=one.low / other.high, high=one.high / other.low, certainty="derived"
    )
