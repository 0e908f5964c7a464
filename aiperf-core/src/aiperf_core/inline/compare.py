"""Two functions compared, or one timed, in the caller's own process.

The functions take turns on the same fresh inputs, block by block, and the first one stands twice: what it seems to gain
over itself is the error of the comparison. Their outputs are compared. The process is the caller's, so that code that
means to deceive can: a target of a package is measured in fresh processes, and its outputs are compared in another one.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Literal

from attrs import define

from aiperf_core import units
from aiperf_core.devices.device import DeviceKind
from aiperf_core.errors import UsageError
from aiperf_core.inline import subject
from aiperf_core.inline.compared import CONTROL, FLOOR, Compared, Timing, compared, timing
from aiperf_core.inline.sampling import Sampler
from aiperf_core.inline.subject import Arguments
from aiperf_core.inline.turns import Sample
from aiperf_core.results.models import Verdict
from aiperf_core.tolerance import Tolerance

# Draws of the inputs on which outputs are compared.
_DRAWS = 2
# Summaries of times by their names in `do_bench`.
_SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}


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
    return timing(name, samples, _method(sampler, samples))


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
        return {**dict(zip(self.names, self.functions, strict=True)), f"{self.names[0]}{CONTROL}": self.functions[0]}

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
        samples = sampler.run()
        return compared(self.names, samples, floor, method=_method(sampler, samples), checked=self.checked)


def _method(sampler: Sampler, samples: Sequence[Sample]) -> str:
    clock = "device clock, cold caches" if sampler.kind.clock else "wall clock, warm caches"
    calls = "/".join(map(str, dict.fromkeys(sampler.calls.values())))
    turns = sampler.turns
    return (
        f"{clock}; {units.plural('sample', len(samples))} of {calls} calls in {units.plural('turn', turns.passes)}, "
        f"{turns.took_s:.1f} s"
    )
