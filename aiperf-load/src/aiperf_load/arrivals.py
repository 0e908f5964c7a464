"""Arrival times and lengths of requests, all drawn from a seed before the first request is sent."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from aiperf_core.errors import UsageError
from aiperf_core.names import cause, words
from aiperf_core.text_file import text_of
from aiperf_load.spec import Arrivals, LoadSpec, Workload

Times = NDArray[np.float64]
Counts = NDArray[np.int64]
MOST = 10_000_000  # requests of a point
COLUMNS = ("at_s", "input_tokens", "output_tokens")


@frozen(eq=False)
class Plan:
    """The requests of a point, in the order of arrival.

    scheduled_s: the arrival, in seconds from the start. Of a closed loop it is not known, and 0.
    input_tokens, output_tokens: the lengths of prompt and answer.
    clients: of a closed loop; 0 for arrivals that do not depend on the server.
    """

    scheduled_s: Times
    input_tokens: Counts
    output_tokens: Counts
    clients: int = 0

    def __len__(self) -> int:
        return len(self.scheduled_s)


def plan(spec: LoadSpec) -> Plan:
    """Draw the requests of a point. Raises UsageError for a trace that cannot be read, and for too many requests."""
    rng = np.random.default_rng([spec.rules.seed, 1])
    if spec.arrivals.kind == "trace":
        return _of_trace(spec, rng)
    if spec.arrivals.kind == "closed":
        return _closed(spec, rng)
    times = gaps_until(spec.arrivals, spec.rules.duration_s, rng)
    if not len(times):
        raise UsageError(
            f"no request arrives within {spec.rules.duration_s:g} s at {spec.arrivals.rate_per_s:g} a second. "
            "Raise --rate or --duration."
        )
    return Plan(times, *_lengths(spec.workload, len(times), rng))


def gaps_until(arrivals: Arrivals, duration_s: float, rng: np.random.Generator) -> Times:
    """Arrival times from 0 up to `duration_s`, exclusive. Of constant arrivals the first comes after one gap."""
    rate = arrivals.rate_per_s or 0.0
    if rate * duration_s > MOST:
        raise UsageError(f"{rate * duration_s:,.0f} requests were asked for; accepted are up to {MOST:,}.")
    if arrivals.kind == "constant":
        return np.arange(1, math.ceil(rate * duration_s - 1e-9)) / rate
    shape = arrivals.burstiness if arrivals.kind == "gamma" and arrivals.burstiness else 1.0
    found: list[Times] = []
    last_s = 0.0
    while last_s < duration_s:
        some = max(16, math.ceil((duration_s - last_s) * rate * 1.1))
        # A gap of mean 1 / rate; its coefficient of variation is 1 / sqrt(shape).
        times = last_s + np.cumsum(rng.gamma(shape, 1 / (rate * shape), some))
        found.append(times)
        last_s = float(times[-1])
    whole = np.concatenate(found)
    return whole[whole < duration_s]


def _lengths(work: Workload, count: int, rng: np.random.Generator) -> tuple[Counts, Counts]:
    inputs = rng.integers(work.input_low, work.input_high, size=count, endpoint=True)
    return inputs, rng.integers(work.output_low, work.output_high, size=count, endpoint=True)


def _closed(spec: LoadSpec, rng: np.random.Generator) -> Plan:
    """The lengths of the requests that a closed loop may send; it is over when its duration has passed."""
    most = min(MOST, max(1000, int(spec.rules.duration_s * 10_000)))
    return Plan(np.zeros(most), *_lengths(spec.workload, most, rng), clients=spec.arrivals.clients or 1)


def _of_trace(spec: LoadSpec, rng: np.random.Generator) -> Plan:
    path = Path(spec.arrivals.trace or "")
    rows = read_trace(path)
    times = np.array([row["at_s"] for row in rows], dtype=np.float64)
    inputs, outputs = _lengths(spec.workload, len(rows), rng)
    for index, row in enumerate(rows):
        inputs[index] = row.get("input_tokens", inputs[index])
        outputs[index] = row.get("output_tokens", outputs[index])
    inside = times < spec.rules.duration_s
    if not inside.any():
        raise UsageError(f"'{path}' has no arrival before {spec.rules.duration_s:g} s, the duration. Raise --duration.")
    if int(inputs.min()) <= spec.workload.shared_prefix:
        raise UsageError(f"'{path}' has a prompt of {inputs.min()} tokens; --shared-prefix leaves it no token.")
    return Plan(times[inside], inputs[inside], outputs[inside])


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Recorded arrivals: CSV with a header, or JSON objects one a line. Raises UsageError with the line."""
    try:
        text = text_of(path, path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot read '{path}': {cause(error)}. A trace is CSV or JSON lines with {', '.join(COLUMNS)}."
        ) from None
    reader = csv.DictReader(text.splitlines()) if path.suffix.lower() == ".csv" else None
    numbered = enumerate(reader, 2) if reader else enumerate(text.splitlines(), 1)
    rows: list[dict[str, Any]] = []
    for number, raw in numbered:
        if isinstance(raw, str) and not raw.strip():
            continue
        rows.append(_row(path, number, raw))
        if len(rows) > 1 and rows[-1]["at_s"] < rows[-2]["at_s"]:
            raise UsageError(f"'{path}', line {number}: at_s goes back; arrivals must be in order.")
    if not rows:
        raise UsageError(f"'{path}' has no arrivals. A trace is CSV or JSON lines with {', '.join(COLUMNS)}.")
    return rows


def _row(path: Path, number: int, raw: Any) -> dict[str, Any]:
    place = f"'{path}', line {number}:"
    try:
        found = json.loads(raw) if isinstance(raw, str) else raw
    except ValueError:
        raise UsageError(f"{place} not JSON. Name a CSV file with the ending .csv.") from None
    if not isinstance(found, dict) or found.get("at_s") is None:
        raise UsageError(f"{place} no at_s, the arrival in seconds from the start.")
    unknown = [key for key in found if key not in COLUMNS]
    if unknown:
        raise UsageError(f"{place} unknown {words(repr(unknown[0]))}; known: {', '.join(COLUMNS)}.")
    row: dict[str, Any] = {}
    for key, value in found.items():
        if value in (None, ""):
            continue
        try:
            row[key] = float(value) if key == "at_s" else int(value)
        except (TypeError, ValueError):
            raise UsageError(f"{place} {key} is {words(repr(value))}; accepted is a number.") from None
        if not math.isfinite(row[key]) or row[key] < (0 if key == "at_s" else 1):
            raise UsageError(f"{place} {key} is {words(repr(value))}; accepted is a number from {int(key != 'at_s')}.")
    return row
