"""Amounts as people type them, such as `80GiB`, and the number formats of tensors."""

import math
import re

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.targets import nearest

# Bytes of an element. Quantised formats also have scales; see `scaled_bytes`.
DTYPE_BYTES = {
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp6": 0.75,
    "fp4": 0.5,
    "int4": 0.5,
    "int3": 0.375,
    "int2": 0.25,
}
MOST_BYTES, MOST = 1e18, 1e15
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGTP]?)(i?)[bB]?\s*")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def element_bytes(dtype: str) -> float:
    """The bytes of an element. Raises UsageError for an unknown format."""
    if dtype not in DTYPE_BYTES:
        raise UsageError(
            f"'{words(dtype)}' is not a number format.{nearest(dtype, DTYPE_BYTES)} Accepted: {', '.join(DTYPE_BYTES)}."
        )
    return DTYPE_BYTES[dtype]


def scaled_bytes(elements: float, dtype: str, group: int = 0, scale_bytes: float = 0.0) -> float:
    """The bytes of elements of which each `group` shares a scale of `scale_bytes`; a group of 0 has no scales."""
    scales = math.ceil(elements / group) * scale_bytes if group else 0.0
    return elements * element_bytes(dtype) + scales


def bytes_of(text: str) -> float:
    """The bytes of a text such as `80GiB` (powers of 1024), `80GB` (powers of 1000) or `1048576`.

    Raises ValueError with what is accepted.
    """
    parts = _SIZE.fullmatch(text)
    if parts is None or float(parts[1]) <= 0 or (parts[3] and not parts[2]):
        raise ValueError("it takes a number of bytes above 0, such as 80GiB, 141GB or 1048576")
    amount = float(parts[1]) * float(1024 if parts[3] else 1000) ** _POWERS[parts[2]]
    if amount > MOST_BYTES:
        raise ValueError("it takes at most 1e18 bytes")
    return amount


def positive(value: float, what: str) -> float:
    """The value. Raises UsageError unless it is finite, above 0 and no absurd size, of which quotients overflow."""
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{what} must be a number above 0; got {value:g}.")
    if not 1 / MOST <= value <= MOST:
        raise UsageError(f"{what} must lie between {1 / MOST:g} and {MOST:g}; got {value:g}.")
    return value


def share(value: float, what: str) -> float:
    """The value. Raises UsageError unless it is above 0 and at most 1."""
    if not 0 < value <= 1:
        raise UsageError(f"{what} must be above 0 and at most 1; got {value:g}.")
    return positive(value, what)
