"""Numbers as people read them, with a display unit and the digits that are significant. On disk all numbers are SI.

Every function takes any number, also one that a damaged file holds, and returns text without line breaks. Times are
shown as `5.21 ms`, sizes as `128 MiB` (powers of 1024, as memory is made), rates as `3.29 TB/s` (powers of 1000, as in
data sheets).
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import frozen

from aiperf_core.measurements import Estimate

MICRO = "µ"
DIGITS = 3  # of a figure that stands alone; an interval may ask for more
MOST_DIGITS = 5
TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, MICRO + "s"), (1e-9, "ns"))
ENERGY_UNITS = ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"), (1e-9, "nJ"))
RATE_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@frozen
class Shown:
    """An estimate in print: `value` with its unit, and `interval` in the same unit."""

    value: str = ""
    interval: str = ""


def number(value: float, digits: int = DIGITS) -> str:
    """`value` with this number of significant digits, never with an exponent: `0.0312`, `5.21`, `1,234`."""
    return f"{value:,.{_decimals(value, digits)}f}"


def seconds(value: float, digits: int = DIGITS) -> str:
    """A time in s, ms, µs or ns."""
    scale, unit = _unit(value, TIME_UNITS, digits)
    return f"{number(value / scale, digits)} {unit}"


def time_estimate(estimate: Estimate) -> Shown:
    """A time with its interval. Digits are added until the ends of the interval differ from the value."""
    digits = _digits(estimate)
    scale, unit = _unit(estimate.value, TIME_UNITS, digits)
    scaled = Estimate(estimate.value / scale, estimate.low / scale, estimate.high / scale)
    value, interval = _with_interval(scaled, digits)
    return Shown(f"{value} {unit}", interval)


def ratio_estimate(estimate: Estimate) -> Shown:
    """A speedup with its interval."""
    value, interval = _with_interval(estimate, _digits(estimate))
    return Shown(f"{value}x", interval)


def percent_estimate(estimate: Estimate) -> Shown:
    """A share with its interval: `94.1 %` and `[93.9, 94.3]`."""
    scaled = Estimate(100 * estimate.value, 100 * estimate.low, 100 * estimate.high)
    value, interval = _with_interval(scaled, _digits(scaled))
    return Shown(f"{value} %", interval)


def speedup(estimate: Estimate | None) -> Shown:
    """A speedup with its interval, or empty texts where there is none."""
    return ratio_estimate(estimate) if estimate else Shown()


def joules(value: float, digits: int = DIGITS) -> str:
    """An energy in kJ, J, mJ, uJ or nJ."""
    scale, unit = _unit(value, ENERGY_UNITS, digits)
    return f"{number(value / scale, digits)} {unit}"


def rate(value: float, unit: str) -> str:
    """A rate in `unit`, `B/s` or `FLOP/s`: `3.29 TB/s`."""
    scale, prefix = _unit(value, RATE_PREFIXES, DIGITS)
    return f"{number(value / scale)} {prefix}{unit}"


def size(count: float) -> str:
    """A number of bytes: `512 B`, `128 MiB`, `1.25 GiB`."""
    power = 0
    while power + 1 < len(SIZE_UNITS) and float(f"{count / 1024**power:.{DIGITS - 1}e}") >= 1000:
        power += 1
    scaled = count / 1024**power
    return f"{scaled:,.0f} {SIZE_UNITS[power]}" if scaled % 1 == 0 else f"{number(scaled)} {SIZE_UNITS[power]}"


def percent(fraction: float) -> str:
    """A share: `82 %`, `8.2 %`, `0.31 %`."""
    hundredths = fraction * 100
    if 0 < hundredths < 0.01:
        return "< 0.01 %"
    return f"{number(hundredths, 2 if hundredths < 99.5 else 3)} %"


def parameter(value: float) -> str:
    """A size of a workload, in full: `33,554,432`, `0.5`."""
    if isinstance(value, int) or (abs(value) < 1e15 and value == int(value)):
        return f"{int(value):,}"
    return f"{value:g}"


def parameters(params: Mapping[str, float]) -> str:
    """The sizes of a workload, by the names of its parameters: `m=64 n=4,096`."""
    return " ".join(f"{name}={parameter(value)}" for name, value in params.items())


def span(value: float) -> str:
    """A time of waiting: `360 ms`, `8 s`, `2 min 05 s`, `1 h 12 min`."""
    if 0 < value < 0.95 or not math.isfinite(value):
        return seconds(value, 2)
    whole = max(0, round(value))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def moment(iso: str) -> str:
    """A date and time: `2026-11-21 14:25 UTC`. Text that is not ISO 8601 stays as it is."""
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M %Z").strip()
    except ValueError:
        return iso


def plural(noun: str, count: int) -> str:
    """A count with its noun: `1 target`, `2 targets`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _unit(value: float, units: Sequence[tuple[float, str]], digits: int) -> tuple[float, str]:
    """The largest unit that is not above the rounded value: 999.96 GB/s is `1.00 TB/s`."""
    rounded = float(f"{abs(value):.{digits - 1}e}")
    return next((unit for unit in units if rounded >= unit[0]), units[-1])


def _digits(estimate: Estimate) -> int:
    """Digits whose last stands for at most a quarter of the interval: its ends then differ from the value."""
    width = (estimate.high - estimate.low) / 4
    if not 0 < width < math.inf or estimate.value <= 0:
        return DIGITS + 1
    place = math.floor(math.log10(width))
    enough = (
        digits for digits in range(DIGITS, MOST_DIGITS) if _exponent(estimate.value, digits) - digits + 1 <= place
    )
    return next(enough, MOST_DIGITS)


def _with_interval(estimate: Estimate, digits: int) -> tuple[str, str]:
    value = number(estimate.value, digits)
    low, high = (_bound(end, estimate.value, digits) for end in (estimate.low, estimate.high))
    return value, f"[{low}, {high}]"


def _bound(end: float, value: float, digits: int) -> str:
    """An end of an interval: with the decimals of the value, or with digits of its own where it is far from it."""
    if end and abs(_exponent(end, DIGITS) - _exponent(value, DIGITS)) > 1:
        return number(end)
    return f"{end:,.{_decimals(value, digits)}f}"


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - _exponent(value, digits)) if value else 0


def _exponent(value: float, digits: int) -> int:
    """The exponent of the first digit after rounding: 9.996 with three digits is 10.0, not 10.00."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2]) if math.isfinite(value) else 0
