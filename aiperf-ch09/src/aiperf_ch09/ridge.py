"""Ridge points: the operations for each byte above which arithmetic and not a memory bounds the time."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from aiperf_core.errors import UsageError

# Rates of arithmetic and of memories in ceilings, with their names in a table.
UNITS = {"flop_per_s": "matrix", "multiply_add_flop_per_s": "FMA"}
MEMORIES = {
    "read_bytes_per_s": "memory",
    "cache_bytes_per_s": "last-level cache",
    "shared_bytes_per_s": "shared memory",
}
BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


@frozen
class Ridge:
    """The ridge points of a unit and precision.

    per_byte: operations for each byte, by memory.
    square: the n from which on a product of n x n matrices is bound by arithmetic, each matrix moved once.
    batch: the number of rows from which on a product with a large weight is; None for units without matrices.
    """

    unit: str
    precision: str
    flop_per_s: float
    per_byte: dict[str, float]
    square: float | None
    batch: float | None


def ridges(ceilings: Mapping[str, Any]) -> Iterator[Ridge]:
    """The ridge points of a device, by its ceilings, fastest memory last. Raises `UsageError` without any rate."""
    rates = {name: ceilings[key] for key, name in MEMORIES.items() if ceilings.get(key)}
    units = [
        (name, precision, rate) for key, name in UNITS.items() for precision, rate in (ceilings.get(key) or {}).items()
    ]
    if not rates or not units:
        raise UsageError("these ceilings have no rate of a memory or of arithmetic. Measure them: aiperf ceilings")
    for unit, precision, rate in units:
        per_byte = {memory: rate / bytes_per_s for memory, bytes_per_s in rates.items()}
        square = batch = None
        if unit == "matrix" and precision in BYTES and (ridge := per_byte.get(MEMORIES["read_bytes_per_s"])):
            # 2 n^3 operations move 3 n^2 values; b rows and a weight of k x n values take 2 b k n operations.
            square, batch = 3 * BYTES[precision] * ridge / 2, BYTES[precision] * ridge / 2
        yield Ridge(unit, precision, rate, per_byte, square, batch)


def ceilings_in(file: Path) -> dict[str, Mapping[str, Any]]:
    """The ceilings by device, of what `aiperf ceilings --json` or `aiperf probe --json` printed.

    Raises `UsageError` for another file.
    """
    try:
        document = json.loads(file.read_text())
        found = document["ceilings"]
        by_device = {found["device"]: found} if "flop_per_s" in found else dict(found)
        if all("flop_per_s" in one for one in by_device.values()) and by_device:
            return by_device
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"'{file}' has no ceilings ({type(error).__name__}: {error}); {ACCEPTED}") from None
    raise UsageError(f"'{file}' has no ceilings; {ACCEPTED}")


ACCEPTED = "accepted is what 'aiperf ceilings --json' or 'aiperf probe --json' printed"
