"""Two functions compared, or one timed, in the caller's own process.

The functions take turns on the same fresh inputs, block by block, and the first one stands twice: what it seems to gain
over itself is the error of the comparison. Their outputs are compared. The process is the caller's, so that code that
means to deceive can: a target of a package is measured in fresh processes, and its outputs are compared in another one.
"""

import statistics
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Literal

from attrs import define, frozen

from aiperf_core import units
from aiperf_core.devices.device import DeviceKind
from aiperf_core.errors import UsageError
from aiperf_core.inline import subject
from aiperf_core.inline.sampling import Sample, Sampler
from aiperf_core.inline.subject import Arguments
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Verdict
from aiperf_core.stats import intervals
from aiperf_core.stats.intervals import Blocks
from aiperf_core.tolerance import Tolerance

# The smallest relative difference that matters, unless the caller names another.
FLOOR = 0.005
_CONTROL = " (again)"
# Draws of the inputs on which outputs are compared.
_DRAWS = 2
# Summaries of times by their names in `do_bench`.
_SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}
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


def compare(
    first: Callable[..., Any],
    second: Callable[..., Any],
    inputs: Callable[[], Any] | None = None,
    *,
    check: Tolerance | Literal["exact"] | Callable[[Any, Any], Any] | None = None,
    budget_s: float = 1.0,
    floor: float = FLOOR,
    mutates: bool = False,
) -> Compared:
    """Compare the time of a second function with that of a first, and their outputs.

    inputs: returns fresh arguments for both: a tuple, a dict by name, or a single value. It is called for each pass,
        outside of all times.
    check: the tolerance of the outputs, or a function of both outputs that raises an error or returns False where they
        differ; by default the tolerance of their dtypes.
    budget_s: seconds of sampling.
    floor: the smallest relative difference that matters.
    mutates: the functions write to their arguments; each call then gets a copy, and a sample has one call.

    Times are those of the device where tensors lie on a GPU, each call with cold caches; else of the wall clock, with
    warm ones. Raises UsageError for arguments that make no sense, BenchmarkError for a function that fails.
    """
    subject.check_function(first, "the first function")
    subject.check_function(second, "the second function")
    _check_numbers(budget_s, floor)
    pair = Pair(_names(first, second), (first, second), *subject.check_of(check))
    kind, problem = pair.examine(inputs, mutates)
    if problem:
        return Compared(verdict=Verdict.INVALID, first=None, second=None, names=pair.names, reason=problem)
    return pair.measured(Sampler(pair.sides, inputs, kind, budget_s, mutates), floor)


def timeit(
    function: Callable[..., Any],
    inputs: Callable[[], Any] | None = None,
    *,
    budget_s: float = 1.0,
    mutates: bool = False,
) -> Timing:
    """Time a function; parameters and clocks are those of `compare`."""
    subject.check_function(function, "the function")
    _check_numbers(budget_s, FLOOR)
    arguments = Arguments.drawn(inputs)
    name = subject.name_of(function, "function")
    output = subject.first_call(name, arguments.copied().bound_to(function))
    sampler = Sampler({name: function}, inputs, subject.kind_of(arguments.values, output), budget_s, mutates)
    samples = tuple(sampler.run())
    return _timing(name, samples, _method(sampler, samples))


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: Literal["mean", "median", "min", "max", "all"] = "mean",
) -> Any:
    """Time a function, with the signature and the unit, milliseconds, of `triton.testing.do_bench`.

    warmup, rep: milliseconds of warm-up and of sampling.
    grad_to_none: tensors whose gradient is removed before each call.
    quantiles: return these quantiles of the times, as a list, in place of what `return_mode` names.

    Each call has cold caches on a GPU. For autotuners; `timeit` gives an interval.
    """
    if return_mode not in (*_SUMMARIES, "all"):
        raise UsageError(f"return_mode={return_mode!r}; accepted are {', '.join(_SUMMARIES)} and all.")

    def call() -> Any:
        for tensor in grad_to_none or ():
            tensor.grad = None
        return fn()

    subject.check_function(fn, "fn")
    kind = subject.kind_of(subject.first_call(subject.name_of(fn, "fn"), call), list(grad_to_none or ()))
    sampler = Sampler({"fn": call}, None, kind, (warmup + rep) / 1e3)
    times = sorted(1e3 * sample.time_s for sample in sampler.run())
    if quantiles is not None:
        return [times[min(len(times) - 1, int(quantile * len(times)))] for quantile in quantiles]
    if return_mode == "all":
        return times
    return _SUMMARIES[return_mode](times)


def _check_numbers(budget_s: float, floor: float) -> None:
    if not 0 < budget_s < float("inf"):
        raise UsageError(f"budget_s={budget_s!r}; accepted are seconds above 0.")
    if not 0 <= floor < 1:
        raise UsageError(f"floor={floor!r}; accepted are relative differences from 0 up to 1.")


def _names(first: Callable[..., Any], second: Callable[..., Any]) -> tuple[str, str]:
    names = subject.name_of(first, "first"), subject.name_of(second, "second")
    return names if names[0] != names[1] else (f"{names[0]} (first)", f"{names[1]} (second)")


@define
class Pair:
    """Two functions by name, and what their outputs are compared by.

    checked: what was found of the outputs.
    """

    names: tuple[str, str]
    functions: tuple[Callable[..., Any], Callable[..., Any]]
    tolerance: Tolerance | None
    checker: Callable[[Any, Any], Any] | None
    checked: str = ""

    @property
    def sides(self) -> dict[str, Callable[..., Any]]:
        """Functions by name, and the first one again."""
        return {**dict(zip(self.names, self.functions, strict=True)), f"{self.names[0]}{_CONTROL}": self.functions[0]}

    def examine(self, inputs: Callable[[], Any] | None, mutates: bool) -> tuple[DeviceKind, str]:
        """The kind of device of both functions, and a sentence on their first fault in two draws; empty for none."""
        for _ in range(_DRAWS):
            arguments, outputs = Arguments.drawn(inputs), list[Any]()
            for name, function in zip(self.names, self.functions, strict=True):
                given = arguments.copied()
                outputs.append(subject.first_call(name, given.bound_to(function)))
                if not mutates and (changed := arguments.unlike(given)):
                    return subject.kind_of(arguments.values), (
                        f"{name} changes its arguments ({', '.join(changed)}); with mutates=True each call gets a copy"
                    )
            agree = "the outputs agree" + f" on {_DRAWS} draws of the inputs" * (inputs is not None)
            nothing = all(output is None for output in outputs)
            self.checked = "not checked: both functions return None" if nothing else agree
            kind = subject.kind_of(arguments.values, *outputs)
            if found := self._difference(*outputs):
                return kind, f"the outputs of {self.names[0]} and {self.names[1]} differ: {found}"
        return kind, ""

    def _difference(self, left: Any, right: Any) -> str | None:
        if self.checker is None:
            return subject.difference(left, right, self.tolerance)
        try:
            return "the check returned False" if self.checker(left, right) is False else None
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def measured(self, sampler: Sampler, floor: float) -> Compared:
        """The comparison of times."""
        samples = tuple(sampler.run())
        first, second, again = (_blocks(samples, side) for side in self.sides)
        speedup, control = intervals.ratio_interval(first, second), intervals.ratio_interval(first, again)
        verdict, reason = _verdict(first, second, speedup, control, floor)
        timings = [_timing(side, samples, _method(sampler, samples)) for side in self.names]
        return Compared(
            verdict=verdict,
            first=timings[0],
            second=timings[1],
            names=self.names,
            speedup=speedup,
            control=control,
            reason=reason,
            checked=self.checked,
            method=timings[0].method,
            samples=samples,
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


def _timing(side: str, samples: Sequence[Sample], method: str) -> Timing:
    own = tuple(sample for sample in samples if sample.side == side)
    shortest = min(sample.time_s for sample in own)
    median = intervals.median_interval(_blocks(own, side))
    return Timing(name=side, median=median, shortest_s=shortest, samples=own, method=method)


def _method(sampler: Sampler, samples: Sequence[Sample]) -> str:
    clock = "device clock, cold caches" if sampler.kind.clock else "wall clock, warm caches"
    calls = "/".join(map(str, dict.fromkeys(sampler.calls.values())))
    return (
        f"{clock}; {units.plural('sample', len(samples))} of {calls} calls in {units.plural('turn', sampler.passes)}, "
        f"{sampler.took_s:.1f} s"
    )


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
