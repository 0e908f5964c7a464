"""The verdict on benchmarks that were run in pairs, once at a base and once at a head, each in a process of its own.

A process differs from the next one (addresses, modes of an allocator), and no number of samples within one shows it. So
a process is one value, a pair of them one logarithm of a ratio, and the interval is Student's t of the pairs: a
benchmark with two modes has a wide one. A pair beyond it in 1 of 100 cases is only a suspect; new pairs confirm it.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, geometric_mean, stdev

from attrs import field, frozen

from aiperf_analysis.ci.gating import WORDS
from aiperf_analysis.foreign.model import Figure as Measured
from aiperf_analysis.foreign.model import Results, chosen
from aiperf_core import units
from aiperf_core.errors import ExitCode
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Cell, Column, LeftOut, Record, Result, Table, counted, figure
from aiperf_core.stats.distributions import t_quantile

# The probability that pairs without a change are a suspect, by either direction.
MISS = 0.01
_SHOWN = 0.05
# The least spread of pairs, on the logarithmic scale: of a counted figure all pairs agree.
_LEAST_SD = 1e-4
Words = Mapping[str, str]


@frozen
class Pairs:
    """The results of alternating processes, in their order.

    base, head: of one length.
    """

    base: list[Results] = field(factory=list)
    head: list[Results] = field(factory=list)

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(self.base + other.base, self.head + other.head)

    @property
    def names(self) -> list[str]:
        """All benchmarks, those of the base first."""
        return list(dict.fromkeys(one.title for side in (self.base, self.head) for run in side for one in run.figures))

    def ratios(self, name: str, statistic: str | None) -> list[float]:
        """The logarithms of head / base of the pairs that have a benchmark on both sides."""
        found = []
        for base, head in zip(self.base, self.head, strict=True):
            sides = [_value(run, name, statistic) for run in (base, head)]
            if all(value is not None and value > 0 for value in sides):
                found.append(math.log(sides[1] or 1.0) - math.log(sides[0] or 1.0))
        return found

    def sides(self, name: str) -> tuple[bool, bool]:
        """The presence of a benchmark in any run of the base, and of the head."""
        found = [any(_figure(run, name) for run in side) for side in (self.base, self.head)]
        return found[0], found[1]


def _figure(run: Results, name: str) -> Measured | None:
    return next((one for one in run.figures if one.title == name), None)


def _value(run: Results, name: str, statistic: str | None) -> float | None:
    found = _figure(run, name)
    return None if found is None else found.statistics[chosen(found, statistic)]


@frozen
class Change:
    """The verdict on a benchmark.

    word: of `WORDS`.
    ratio: head divided by base with its 95 % interval; None for too few pairs.
    """

    name: str
    word: str
    reason: str
    pairs: int
    ratio: Estimate | None = None


def interval(ratios: Sequence[float], miss: float) -> Estimate:
    """The ratio of a benchmark's sides by Student's t of its pairs, at least two.

    miss: the probability that an interval of pairs without a change does not hold 1.
    """
    spread = max(stdev(ratios), _LEAST_SD) / math.sqrt(len(ratios))
    half, mean = t_quantile(1 - miss / 2, len(ratios) - 1) * spread, fmean(ratios)
    return Estimate(*(math.exp(mean + side) for side in (0.0, -half, half)))


def beyond(ratios: Sequence[float], floor: float, family: int) -> int:
    """1 where the head is slower than chance and the floor allow, -1 where it is faster, else 0.

    family: the number of benchmarks. Two sets of pairs must agree, so the probability falls with the root of it.
    """
    if len(ratios) < 2:
        return 0
    found = interval(ratios, MISS / math.sqrt(max(1, family)))
    if abs(found.value - 1) <= floor:
        return 0
    return (found.low > 1) - (found.high < 1)


def suspects(pairs: Pairs, statistic: str | None, floor: float) -> dict[str, int]:
    """The benchmarks that new pairs must confirm or refute, with their direction."""
    names = pairs.names
    found = {name: beyond(pairs.ratios(name, statistic), floor, len(names)) for name in names}
    return {name: side for name, side in found.items() if side}


def changes(first: Pairs, second: Pairs, statistic: str | None, floor: float) -> list[Change]:
    """The verdicts, the gravest first. `second` has the pairs that confirm or refute the suspects of `first`."""
    found = suspects(first, statistic, floor)
    both = first + second
    told = [_change(name, first, second, found.get(name, 0), statistic, floor) for name in both.names]
    return sorted(told, key=lambda one: ([*WORDS].index(one.word), one.name))


def _change(name: str, first: Pairs, second: Pairs, side: int, statistic: str | None, floor: float) -> Change:
    both = first + second
    ratios, (has_base, has_head) = both.ratios(name, statistic), both.sides(name)
    if not (has_base and has_head):
        word = "NEW" if has_head else "INCONCLUSIVE"
        return Change(name, word, "only the head has it" if has_head else "the head does not have it any more", 0)
    if len(ratios) < 2:
        return Change(name, "INCONCLUSIVE", "fewer than 2 pairs have a figure above 0", len(ratios))
    ratio = interval(ratios, _SHOWN)
    if side:
        if beyond(second.ratios(name, statistic), floor, len(both.names)) != side:
            return Change(name, "SUSPECT", "new pairs did not confirm it", len(ratios), ratio)
        return Change(name, "REGRESSION" if side > 0 else "IMPROVED", "new pairs confirm it", len(ratios), ratio)
    seen = ratio.high / ratio.value - 1
    if seen > floor:
        return Change(
            name, "TOO NOISY", f"processes differ: below {units.percent(seen)} nothing is seen", len(ratios), ratio
        )
    return Change(name, "FINE", "within the interval or the floor", len(ratios), ratio)


_COLUMNS = [
    Column("name", "benchmark"),
    Column("verdict", "verdict", "verdict"),
    Column("base", "base", "figure"),
    Column("head", "head", "figure"),
    Column("ratio", "head / base", "figure"),
    Column("pairs", "pairs"),
    Column("why", "why"),
]


def report(
    first: Pairs, second: Pairs, statistic: str | None, floor: float, commits: Words, repeat: str, folder: str
) -> Result:
    """The result of a comparison: what was run, the verdicts, and where the samples lie.

    commits: the full names of `base` and `head`.
    repeat: the command that repeats it.
    """
    found, both = changes(first, second, statistic, floor), first + second
    counts = {word: sum(one.word == word for one in found) for word in WORDS}
    told = ", ".join(f"{count} {WORDS[word].text}" for word, count in counts.items() if count)
    gravest = next((word for word, count in counts.items() if count), "NEW")
    skipped = {name: reason for run in both.base + both.head for name, reason in run.skipped.items()}
    problems = dict.fromkeys(problem for run in both.base + both.head for problem in run.problems)
    code = WORDS[gravest].code
    return Result(
        analysis="pair",
        title=f"{commits['head'][:12]} against {commits['base'][:12]}: {told or 'no benchmarks'}",
        summary=[f"Repeat it: {repeat}", *_differences(both), f"The results of all runs: {folder}"],
        status="regression" if code == ExitCode.BELOW_EXPECTATION else "ok" if found else "nothing",
        options={"statistic": statistic, "floor": floor, **commits},
        tables=[Table("changes", "benchmarks", _COLUMNS, [_record(one, both, statistic) for one in found])],
        assumptions=[
            "A process is one value. Runs of base and head took turns in an order that was drawn for each pair.",
            f"A change is told beyond {units.percent(floor)} and chance, where pairs that ran afterwards confirm it.",
        ],
        left_out=[LeftOut(name, "SKIPPED", reason) for name, reason in skipped.items()]
        + [LeftOut("benchmark", "", problem) for problem in problems],
        details={"ratios": {one.name: both.ratios(one.name, statistic) for one in found}},
    )


def _differences(pairs: Pairs) -> list[str]:
    """Differences between the sides beside the code."""
    found = []
    for what in ("tool", "version", "machine"):
        base, head = ({getattr(run, what) for run in side} for side in (pairs.base, pairs.head))
        if base != head:
            shown = (", ".join(sorted(side)) or "none" for side in (base, head))
            found.append(f"The {what} differs: base {next(shown)}, head {next(shown)}.")
    return found or ["Tool and machine are the same on both sides."]


def _record(change: Change, pairs: Pairs, statistic: str | None) -> Record:
    units_of = [one.unit for run in pairs.base + pairs.head if (one := _figure(run, change.name))]
    sides = {
        key: [value for run in side if (value := _value(run, change.name, statistic)) is not None]
        for key, side in (("base", pairs.base), ("head", pairs.head))
    }
    unit = units_of[0] or "number"
    cells: dict[str, Cell] = {
        "name": change.name,
        "verdict": change.word,
        **{
            key: counted(geometric_mean(values) if min(values) > 0 else fmean(values), unit) if values else None
            for key, values in sides.items()
        },
        "ratio": figure(change.ratio) if change.ratio else None,
        "pairs": change.pairs,
        "why": change.reason,
    }
    return Record(cells)
