"""Sweeps of parameters: what `--set` spells, and the points that a run measures.

| value of `--set n=` | points |
| --- | --- |
| `1e6` | a single value: no sweep |
| `1e6,1e7,2**24` | these values |
| `1e3:1e6:x10` | from 1e3 to 1e6, each 10 times the last |
| `0:100:25` | from 0 to 100 in steps of 25 |
| `2**10..2**20` | every power of 2 from 2**10 to 2**20 |

Several swept parameters make a grid. A point is a target at values of its swept parameters, with a name such as
`ch07.memory_access@n=1000000`. Parameters stand in alphabetical order, so that a point has a single name.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from attrs import frozen

from aiperf_core.errors import UsageError

MARK = "@"
# The default limit for the points of a target, and the limit for the values of a range, which no option lifts.
MOST_POINTS, MOST_VALUES = 64, 10_000
FORMS = "1e6,1e7 or 1e3:1e6:x10 or 0:100:25 or 2**10..2**20"

_POWER = re.compile(r"([0-9]+)\*\*([0-9]+)")
_POWERS = re.compile(r"([0-9]+)\*\*([0-9]+)\.\.([0-9]+)\*\*([0-9]+)")
_RANGE = re.compile(r"([^:]+):([^:]+):(x?)([^:]+)")
# A range that ends within this relative distance of its stop includes it, in spite of rounding.
_CLOSE = 1e-9
# Whole numbers up to here are spelled in digits.
_EXACT = 2.0**53
Point = tuple[tuple[str, float], ...]


@frozen
class Axis:
    """A parameter and the values that `--set` gives it, in ascending order."""

    name: str
    values: tuple[float, ...]


# --- the values of --set


def axes_of(texts: Iterable[str]) -> list[Axis]:
    """The parameters of all `--set`, with their values. Raises `UsageError`."""
    axes: dict[str, Axis] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--set takes NAME=NUMBER, such as --set n=1e6; got {text!r}.")
        if name in axes:
            raise UsageError(f"--set {name} was given twice; give all values at once: --set {name}=1e6,1e7")
        found = {value for part in values.split(",") for value in _values(name, part)}
        axes[name] = Axis(name, tuple(sorted(found)))
    return list(axes.values())


def number(name: str, text: str) -> float:
    """A number of `--set`, such as `4096`, `1e6` or `2**20`. Raises `UsageError`."""
    power = _POWER.fullmatch(text)
    try:
        value = _power(int(power[1]), int(power[2])) if power else float(text)
    except (ValueError, OverflowError):
        raise UsageError(f"--set {name} takes a number, such as 4096 or 1e6; got {text!r}.") from None
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"--set {name} takes a number that is not negative; got {text!r}.")
    return value


def _power(base: int, exponent: int) -> float:
    # No parameter has a value beyond this exponent, and the power would take all memory.
    return float(base ** min(exponent, 1024))


def _values(name: str, text: str) -> list[float]:
    """The values of a number or a range."""
    if powers := _POWERS.fullmatch(text):
        base, low, other, high = map(int, powers.groups())
        if base != other or base < 2:
            raise _no_range(name, text, "both ends are powers of the same number, at least 2")
        exponents = range(low, low + _count(name, text, high - low))
        return [number(name, f"{base}**{exponent}") for exponent in exponents]
    if found := _RANGE.fullmatch(text):
        start, stop, step = (number(name, found[index]) for index in (1, 2, 4))
        return (_geometric if found[3] else _arithmetic)(name, text, start, stop, step)
    if ":" in text or ".." in text:
        raise _no_range(name, text, "a range has three parts, START:STOP:xFACTOR or START:STOP:STEP")
    return [number(name, text)]


def _geometric(name: str, text: str, start: float, stop: float, factor: float) -> list[float]:
    if factor <= 1 or start <= 0:
        raise _no_range(name, text, "a range by a factor starts above 0, and its factor is above 1")
    steps = math.log(stop / start, factor) if stop >= start else -1
    return [_rounded(start * factor**index) for index in range(_count(name, text, steps))]


def _arithmetic(name: str, text: str, start: float, stop: float, step: float) -> list[float]:
    if step <= 0:
        raise _no_range(name, text, "its step is above 0")
    steps = (stop - start) / step
    return [_rounded(start + step * index) for index in range(_count(name, text, steps))]


def _count(name: str, text: str, steps: float) -> int:
    """How many values a range has that takes this number of steps."""
    if steps < 0:
        raise _no_range(name, text, "it ends before it starts")
    if steps >= MOST_VALUES:
        raise _no_range(name, text, f"it has more than {MOST_VALUES:,} values")
    return math.floor(steps + _CLOSE) + 1


def _rounded(value: float) -> float:
    """A value without the rounding error of its computation: 0.1 + 2 * 0.1 is 0.3. Whole numbers are exact."""
    return value if value.is_integer() else float(f"{value:.12g}")


def _no_range(name: str, text: str, why: str) -> UsageError:
    return UsageError(f"--set {name}={text} is not a range: {why}. Accepted: {FORMS}.")


# --- the points of a run


def fixed(axes: Sequence[Axis]) -> dict[str, float]:
    """The parameters with a single value."""
    return {axis.name: axis.values[0] for axis in axes if len(axis.values) == 1}


def points(axes: Sequence[Axis], most: int = MOST_POINTS) -> list[Point]:
    """The points of the parameters with several values, in ascending order; none without a sweep.

    most: the limit for their number. Raises `UsageError` beyond it.
    """
    swept = sorted((axis for axis in axes if len(axis.values) > 1), key=lambda axis: axis.name)
    count = math.prod(len(axis.values) for axis in swept) if swept else 0
    if count > most:
        each = " x ".join(f"{axis.name}: {len(axis.values):,}" for axis in swept)
        raise UsageError(
            f"--set asks for {count:,} points ({each}); at most {most:,} are accepted. Give fewer values, or raise the "
            f"limit: --max-points {count}"
        )
    names = [axis.name for axis in swept]
    return [tuple(zip(names, one, strict=True)) for one in product(*(axis.values for axis in swept))] if swept else []


def point_name(target: str, values: Mapping[str, float]) -> str:
    """The name of a point: `ch07.memory_access@n=1000000`; the target's name where there are no values."""
    spelled = ",".join(f"{name}={_spelled(value)}" for name, value in sorted(values.items()))
    return f"{target}{MARK}{spelled}" if spelled else target


def split_point(name: str) -> tuple[str, dict[str, float]]:
    """The target and the values of a point's name, in any spelling; any other name without values."""
    target, _, spelled = name.partition(MARK)
    values: dict[str, float] = {}
    for part in spelled.split(","):
        parameter, equals, text = part.partition("=")
        try:
            values[parameter] = number(parameter, text)
        except UsageError:
            return name, {}
        if not (parameter and equals):
            return name, {}
    return target, values


def base_name(name: str) -> str:
    """The target of a point's name; any other name stays as it is."""
    return split_point(name)[0]


def selects(wanted: str, name: str) -> bool:
    """Whether `wanted` names a result: by its name, or a point by its target and by some or all of its values."""
    target, values = split_point(wanted)
    base, known = split_point(name)
    return wanted == name or (bool(known) and target == base and values.items() <= known.items())


def _spelled(value: float) -> str:
    return str(int(value)) if value == int(value) and value < _EXACT else repr(value)
