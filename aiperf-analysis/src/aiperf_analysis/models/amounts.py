"""Amounts as people type them: `24GiB`, `100ms`, `5000/s`, `1.98GHz`, `3TB/s`, `x1.5`, `n=1e6`."""

import math
import re

_NUMBER = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*")
_BYTES = {"": 1.0, "B": 1.0} | {
    f"{prefix}{end}": base**power
    for power, prefix in enumerate("kMGTP", start=1)
    for end, base in (("B", 1000.0), ("iB", 1024.0))
} | {"KiB": 1024.0, "KB": 1000.0}  # fmt: skip
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0}
_RATES = {"": 1.0, "/s": 1.0, "k/s": 1e3, "M/s": 1e6, "G/s": 1e9, "/min": 1 / 60}
_HERTZ = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}


def bytes_of(text: str) -> float:
    """Bytes, such as `24GiB` or `24GB`. Raises ValueError with what is accepted."""
    return _amount(text, _BYTES, "it takes a number of bytes above 0, such as 24GiB or 24GB")


def seconds_of(text: str) -> float:
    """Seconds, such as `100ms`. Raises ValueError with what is accepted."""
    return _amount(text, _SECONDS, "it takes a time above 0 with its unit, such as 100ms or 2s")


def rate_of(text: str) -> float:
    """A number a second, such as `5000/s`. Raises ValueError with what is accepted."""
    return _amount(text, _RATES, "it takes a number a second above 0, such as 5000/s")


def clock_or_factor(text: str) -> str:
    """A clock such as `1500MHz`, or a factor such as `x0.8`, checked. Raises ValueError with what is accepted."""
    accepted = "it takes a clock such as 1500MHz, or a factor such as x0.8"
    return _checked(text, _HERTZ, accepted)


def bandwidth_or_factor(text: str) -> str:
    """A rate such as `3TB/s`, or a factor such as `x1.5`, checked. Raises ValueError with what is accepted."""
    return _checked(text, _BANDWIDTHS, "it takes a rate such as 3TB/s, or a factor such as x1.5")


def size_of(text: str) -> str:
    """A parameter with its value, such as `n=1e6`, checked. Raises ValueError with what is accepted."""
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise ValueError("it takes a parameter with its value, such as n=1e6")
    _amount(value, {"": 1.0}, "it takes a parameter with a value above 0, such as n=1e6")
    return text


_BANDWIDTHS = {f"{name}/s": scale for name, scale in _BYTES.items() if name}


def factor_of(text: str, now: float | None) -> float | None:
    """The factor that a checked clock or rate is of `now`; None where `now` would be needed and is not known."""
    if text.startswith("x"):
        return float(text[1:])
    if not now:
        return None
    return _amount(text, _HERTZ | _BANDWIDTHS, "") / now


def _checked(text: str, units: dict[str, float], accepted: str) -> str:
    if text.startswith("x"):
        _amount(text[1:], {"": 1.0}, accepted)
    else:
        _amount(text, units, accepted)
    return text


def _amount(text: str, units: dict[str, float], accepted: str) -> float:
    found = _NUMBER.fullmatch(text)
    if found is None or found[2] not in units:
        raise ValueError(accepted)
    try:
        amount = float(found[1]) * units[found[2]]
    except ValueError:
        raise ValueError(accepted) from None
    if not (math.isfinite(amount) and amount > 0):
        raise ValueError(accepted)
    return amount
