"""The comparison of samples of two sides that took turns, and the time of one of them, with what both print."""

from collections.abc import Sequence
from html import escape
from typing import Any

from attrs import asdict, frozen

from aiperf_core import units
from aiperf_core.inline.turns import Sample
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Verdict
from aiperf_core.stats import intervals
from aiperf_core.stats.intervals import Blocks

# The smallest relative difference that matters, unless the caller names another.
FLOOR = 0.005
# What the name of the first side has behind it where it stands a second time.
CONTROL = " (again)"
Rows = list[tuple[str, ...]]
NOT_PROVEN = "Same process, trusted code; for fresh processes and a judge: aiperf diff."


@frozen(kw_only=True)
class Timing:
    """The time of a function.

    median: the time of a call in seconds, with its 95 % interval; None of too few passes.
    shortest_s: the shortest sample, by call, in seconds.
    """

    name: str
    median: Estimate | None
    shortest_s: float
    samples: tuple[Sample, ...]
    method: str

    def __str__(self) -> str:
        return _text(self._rows(), [self.method])

    def _repr_html_(self) -> str:
        return _html(self._rows(), [self.method])

    def _rows(self) -> Rows:
        return [(self.name, *_shown(self.median), f"shortest {units.seconds(self.shortest_s)}")]

    def table(self) -> Any:
        """The samples as a `pyarrow.Table`: side, pass, time_s."""
        return _table(self.samples)


@frozen(kw_only=True)
class Compared:
    """A comparison of a second function with a first.

    verdict: of the second; INVALID where the outputs differ, INCONCLUSIVE where the interval leaves it open.
    speedup: the median time of the first over that of the second, with its 95 % interval; None without times.
    control: the same of the first function over itself; what it differs from 1 is no gain.
    reason: why there is no other verdict; empty for none.
    checked: what was found of the outputs.
    proof: what it does not prove, and what does.
    """

    verdict: Verdict
    first: Timing | None
    second: Timing | None
    names: tuple[str, str]
    speedup: Estimate | None = None
    control: Estimate | None = None
    reason: str = ""
    checked: str = ""
    method: str = ""
    samples: tuple[Sample, ...] = ()
    proof: str = NOT_PROVEN

    def __str__(self) -> str:
        return _text(self._rows(), self._notes())

    def _repr_html_(self) -> str:
        return _html(self._rows(), self._notes())

    def table(self) -> Any:
        """The samples as a `pyarrow.Table`: side, pass, time_s."""
        return _table(self.samples)

    def document(self) -> dict[str, Any]:
        """The comparison as plain values for JSON, samples included."""
        found: dict[str, Any] = {"verdict": self.verdict.value, "reason": self.reason}
        for name, estimate in (("speedup", self.speedup), ("control", self.control)):
            found[name] = asdict(estimate) if estimate else None
        for name, one in (("first", self.first), ("second", self.second)):
            found[name] = one and {"name": one.name, "median_s": one.median and asdict(one.median)}
        return found | {"samples": [asdict(sample) for sample in self.samples], "proof": self.proof}

    def _rows(self) -> Rows:
        if not (self.first and self.second):
            return [(self.names[1], self.verdict.value)]
        speedup, control = units.speedup(self.speedup), units.speedup(self.control)
        return [
            (self.names[0], *_shown(self.first.median), "1x", control.interval, "control: itself again"),
            (self.names[1], *_shown(self.second.median), speedup.value, speedup.interval, self.verdict.value),
        ]

    def _notes(self) -> list[str]:
        return [*filter(None, (self.reason, self.checked, self.method, self.proof))]


def compared(
    names: tuple[str, str],
    samples: Sequence[Sample],
    floor: float,
    *,
    method: str,
    checked: str = "",
    proof: str = NOT_PROVEN,
) -> Compared:
    """Compare the samples of two sides, of which the first also stands under the name of its control."""
    first, second, again = (_blocks(samples, side) for side in (*names, f"{names[0]}{CONTROL}"))
    speedup, control = intervals.ratio_interval(first, second), intervals.ratio_interval(first, again)
    verdict, reason = _verdict(first, second, speedup, control, floor)
    timings = [timing(side, samples, method) for side in names]
    return Compared(
        verdict=verdict,
        first=timings[0],
        second=timings[1],
        names=names,
        speedup=speedup,
        control=control,
        reason=reason,
        checked=checked,
        method=method,
        samples=tuple(samples),
        proof=proof,
    )


def _verdict(
    first: Blocks, second: Blocks, speedup: Estimate | None, control: Estimate | None, floor: float
) -> tuple[Verdict, str]:
    """The verdict on the second function, and why it is no other one."""
    if speedup is None or control is None:
        return Verdict.INCONCLUSIVE, f"fewer than {intervals.MIN_PASSES} turns: a larger budget_s makes more"
    verdict = intervals.verdict(speedup, floor)
    if intervals.verdict(control, floor) in (Verdict.FASTER, Verdict.SLOWER):
        return Verdict.INCONCLUSIVE, "the first function differs from itself: something else changed meanwhile"
    if intervals.unclear_order(first, second, verdict) is not None:
        return Verdict.INCONCLUSIVE, "the times of the turns lie in no clear order"
    if verdict is Verdict.INCONCLUSIVE:
        band = units.percent(floor)
        return verdict, f"the interval overlaps the band of {band} around 1: a larger budget_s narrows it"
    return verdict, ""


def _blocks(samples: Sequence[Sample], side: str) -> Blocks:
    own = [sample for sample in samples if sample.side == side]
    return Blocks.of([sample.time_s for sample in own], [sample.number for sample in own])


def timing(side: str, samples: Sequence[Sample], method: str) -> Timing:
    """The time of a side with its interval."""
    own = tuple(sample for sample in samples if sample.side == side)
    shortest = min(sample.time_s for sample in own)
    median = intervals.median_interval(_blocks(own, side))
    return Timing(name=side, median=median, shortest_s=shortest, samples=own, method=method)


def _shown(estimate: Estimate | None) -> tuple[str, str]:
    """A time and its interval."""
    shown = units.time_estimate(estimate) if estimate else None
    return (shown.value, shown.interval) if shown else ("-", "")


def _text(rows: Rows, notes: Sequence[str]) -> str:
    """Rows in columns, and notes below them."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:<{size}}" for cell, size in zip(row, wide, strict=True)).rstrip() for row in rows)
    return "\n".join([*lines, *notes])


def _html(rows: Rows, notes: Sequence[str]) -> str:
    """The same as HTML, for notebooks."""
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>{table}</table>" + "".join(f"<p>{escape(note)}</p>" for note in notes)


def _table(samples: Sequence[Sample]) -> Any:
    from aiperf_core.report.text import arrow_table

    columns: dict[str, list[Any]] = {
        "side": [sample.side for sample in samples],
        "pass": [sample.number for sample in samples],
        "time_s": [sample.time_s for sample in samples],
    }
    return arrow_table(columns, {"side": "str", "pass": "int", "time_s": "float"})
