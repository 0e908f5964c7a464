"""Measures ceilings: the best of several runs and several forms of the same work, within a time budget.

A ceiling that is too low would make honest results exceed the speed of light, so the best value counts.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from attrs import define, field

from aiperf_core.devices.ceiling_figures import beats

Call = Callable[[], Any]
# Runs a call and returns its time in seconds.
Stopwatch = Callable[[Call], float]
Form = tuple[str, Call]
Shape = tuple[int, int, int]  # m, n, k of a matrix product

AT_LEAST = 3
AT_MOST = 50
PATIENCE_S = 0.4
QUICK_S = 0.01
_REASON_CHARACTERS = 160


class Best(NamedTuple):
    """A figure, and how it was measured, in a few words."""

    value: float
    how: str


@define
class Page:
    """Collects figures by key; the best value of each stays.

    tell: gets the label of the next figure.
    figures: the values in SI units.
    how: how each was measured.
    missing: why a figure could not be measured.
    """

    tell: Callable[[str], None]
    figures: dict[str, float] = field(factory=dict)
    how: dict[str, str] = field(factory=dict)
    missing: dict[str, str] = field(factory=dict)

    def take(self, key: str, label: str, measure: Callable[[], Best]) -> None:
        """Measure one figure; `label` is shown while the user waits."""
        self.tell(label)
        try:
            found = measure()
        except Exception as error:
            if key not in self.figures:
                self.missing[key] = reason(error)
            return
        if not math.isfinite(found.value) or found.value < 0:
            self.missing[key] = f"measured as {found.value}, which no device reaches"
        elif key not in self.figures or beats(key, found.value, self.figures[key]):
            self.figures[key], self.how[key] = float(found.value), found.how
            self.missing.pop(key, None)


def reason(error: Exception) -> str:
    """The message of an error in one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[0]
    return text if len(text) <= _REASON_CHARACTERS else text[: _REASON_CHARACTERS - 3] + "..."


def wall(call: Call) -> float:
    """The time of a call by the monotonic clock, in seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def shortest(watch: Stopwatch, call: Call, seconds: float) -> float:
    """The shortest of the runs within a budget, in seconds, after a warm-up run.

    A call that takes longer than the budget runs once; any other at least three times.
    """
    call()
    deadline = time.perf_counter() + seconds
    best = watch(call)
    for run in range(1, AT_MOST):
        if time.perf_counter() >= deadline and (run >= AT_LEAST or best > seconds):
            break
        best = min(best, watch(call))
    return best


def quickest(watch: Stopwatch, forms: Iterable[Form], seconds: float) -> tuple[float, str]:
    """The shortest time of several forms of the same work, and the name of that form.

    `seconds` is the budget of each form. Forms that fail do not count. Raises the last error when all fail.
    """
    found: list[tuple[float, str]] = []
    failed: list[Exception] = []
    for name, call in _made(forms, failed):
        try:
            found.append((shortest(watch, call, seconds), name))
        except Exception as error:
            failed.append(error)
    if not found:
        raise failed[-1] if failed else ValueError("there is no way to measure this here")
    return min(found)


def _made(forms: Iterable[Form], failed: list[Exception]) -> Iterator[Form]:
    """The forms up to the first that cannot be created, for lack of memory or a compiler."""
    try:
        yield from forms
    except Exception as error:
        failed.append(error)


def product_rate(
    watch: Stopwatch, forms_of: Callable[[Shape], Iterator[Form]], shapes: Iterable[Shape], seconds: float
) -> Best:
    """The best rate of a matrix product over growing shapes, in operations per second.

    A form skips shapes that would take longer than `PATIENCE_S` at its best rate so far, so that hardware without this
    precision does not take minutes. That limit is longer than the budget: a disturbed small product looks slow, and
    must not end the search.
    """
    deadline = time.perf_counter() + seconds
    best = Best(0.0, "")
    rates: dict[int, float] = {}
    failed: list[Exception] = []
    for shape in shapes:
        work = 2.0 * math.prod(shape)
        share = (deadline - time.perf_counter()) / 4
        # Loading the kernels of a library may use up the budget at a small shape. Shapes that are quick at the rate so
        # far are measured nevertheless.
        if rates and share <= 0 and work > QUICK_S * max(rates.values()):
            break
        for index, (name, call) in enumerate(_made(forms_of(shape), failed)):
            if work > PATIENCE_S * rates.get(index, math.inf):
                continue
            try:
                rate = work / shortest(watch, call, share)
            except Exception as error:
                failed.append(error)
                continue
            rates[index] = max(rate, rates.get(index, 0.0))
            best = max(best, Best(rate, f"{name}, {spelled(shape)}"))
    if not rates:
        raise failed[-1] if failed else ValueError("there is no way to measure this here")
    return best


def spelled(shape: Shape) -> str:
    """A shape in print: `8192^3`, `8192x4096x8192`."""
    return f"{shape[0]}^3" if len(set(shape)) == 1 else "x".join(map(str, shape))
