"""How many replicas of a server a demand needs, from the measured curve of one replica."""

import csv
import io
import math
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from aiperf_calc.kv_cache import cache_bytes, cached
from aiperf_calc.model import weight_bytes
from aiperf_calc.parts import ModelShape
from aiperf_calc.text import read_json, read_text
from aiperf_core import units
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words

COLUMNS = ("rate_per_s", "goodput_per_s", "goodput_low", "goodput_high", "residence_s")
MET = 0.99  # the share of requests within the SLO from which a measured point meets it
_MOST_REPLICAS = 100_000
_MOST = 1e12  # of any figure of a file


@frozen(kw_only=True)
class LoadPoint:
    """A measured point of one replica.

    rate_per_s: requests that arrived a second.
    goodput_per_s: requests a second within all limits of the SLO, with the ends of its interval.
    residence_s: the mean time of a request in the server; None where it was not measured.
    """

    rate_per_s: float
    goodput_per_s: float
    goodput_low: float
    goodput_high: float
    residence_s: float | None = None

    @property
    def share(self) -> float:
        """The share of requests within the SLO."""
        return self.goodput_per_s / self.rate_per_s


@frozen(kw_only=True)
class Steps:
    """Measured times of a server's step by its batch, for the event simulation.

    batch, seconds: the measured points; between them the time is interpolated.
    per_request: steps that a request takes, such as its tokens.
    most: the largest batch.
    """

    batch: tuple[int, ...]
    seconds: tuple[float, ...]
    per_request: int = 1

    @property
    def most(self) -> int:
        """The largest measured batch, beyond which nothing is assumed."""
        return self.batch[-1]

    def time_s(self, batch: int) -> float:
        """The seconds of all steps of a batch."""
        for index, known in enumerate(self.batch):
            if batch <= known:
                if index == 0 or batch == known:
                    return self.per_request * self.seconds[index]
                before, low = self.batch[index - 1], self.seconds[index - 1]
                share = (batch - before) / (known - before)
                return self.per_request * (low + share * (self.seconds[index] - low))
        raise UsageError(f"a batch of {batch} is larger than any measured one, {self.most}.")


@frozen(kw_only=True)
class LoadCurve:
    """The measured curve of one replica.

    points: by rising rate.
    limit_s: the limit of the SLO on the latency, which the simulation uses; None where the file has none.
    """

    file: str
    points: tuple[LoadPoint, ...]
    steps: Steps | None = None
    limit_s: float | None = None


def read_curve(path: Path) -> LoadCurve:
    """Read a curve from JSON or CSV; `docs/analysis-calculators.md` has the format. Raises UsageError."""
    name, wanted = f"'{path}'", "Give a curve as JSON, or as CSV with the ending .csv."
    if path.suffix.lower() == ".csv":
        return _curve(name, {"points": _rows(name, read_text(path, wanted))})
    document = read_json(path, wanted)
    if not isinstance(document, dict):
        raise UsageError(f"{name} holds {type(document).__name__}; a curve is an object with 'points'.")
    return _curve(name, document)


def _rows(name: str, text: str) -> list[dict[str, Any]]:
    """The rows of a CSV file by its header. Raises UsageError for a row of another length."""
    try:
        header, *rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row] or [[]]
    except csv.Error as error:
        raise UsageError(f"{name} is not CSV: {error}.") from None
    if twice := [column for column in header if header.count(column) > 1]:
        raise UsageError(f"{name} has the column {words(repr(twice[0]))} twice. Remove the wrong one.")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise UsageError(
                f"{name}, row {number} below the header has {units.plural('value', len(row))} for "
                f"{units.plural('column', len(header))}. Give a value, which may be empty, for each column."
            )
    return [dict(zip(header, map(_number, row), strict=True)) for row in rows]


def _number(text: Any) -> Any:
    if not isinstance(text, str) or not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _curve(name: str, document: Mapping[str, Any]) -> LoadCurve:
    unknown = sorted(set(document) - {"points", "steps", "limit_s", "about"})
    if unknown:
        raise UsageError(f"{name} has {words(repr(unknown[0]))}; known: points, steps, limit_s, about.")
    listed = document.get("points")
    if not isinstance(listed, list) or not listed:
        raise UsageError(f"{name} has no points. A point has rate_per_s and goodput_per_s; optional: "
                         f"{', '.join(COLUMNS[2:])}.")  # fmt: skip
    points = sorted(
        (_point(name, index, point) for index, point in enumerate(listed)), key=lambda point: point.rate_per_s
    )
    limit = document.get("limit_s")
    _check_size(f"{name}:", "limit_s", limit)
    if limit is not None and not (isinstance(limit, int | float) and limit > 0):
        raise UsageError(f"{name} has limit_s={words(repr(limit))}; accepted is a number of seconds above 0.")
    return LoadCurve(file=name, points=tuple(points), steps=_steps(name, document.get("steps")), limit_s=limit)


def _check_size(place: str, key: str, value: Any) -> None:
    if isinstance(value, int | float) and value > _MOST:
        raise UsageError(f"{place} {key} is larger than {_MOST:g}, the most that is accepted. Correct it.")


def _point(name: str, index: int, point: Any) -> LoadPoint:
    place = f"{name}, point {index + 1}:"
    if not isinstance(point, dict):
        raise UsageError(f"{place} found {type(point).__name__}; a point has {', '.join(COLUMNS)}.")
    unknown = [key for key in point if key not in COLUMNS]
    if unknown:
        raise UsageError(f"{place} unknown {words(repr(unknown[0]))}; known: {', '.join(COLUMNS)}.")
    for key, value in point.items():
        _check_size(place, key, value)
        if value is not None and not (isinstance(value, int | float) and value >= 0):
            raise UsageError(f"{place} {key}={words(repr(value))}; accepted is a number from 0.")
    rate, goodput = point.get("rate_per_s"), point.get("goodput_per_s")
    if not rate or goodput is None:
        raise UsageError(f"{place} it needs rate_per_s above 0 and goodput_per_s.")
    low, high = point.get("goodput_low"), point.get("goodput_high")
    low, high = goodput if low is None else low, goodput if high is None else high
    if not low <= goodput <= high:
        raise UsageError(f"{place} goodput_per_s {goodput:g} is outside of its interval [{low:g}, {high:g}].")
    return LoadPoint(
        rate_per_s=float(rate), goodput_per_s=float(goodput), goodput_low=float(low), goodput_high=float(high),
        residence_s=point.get("residence_s"),
    )  # fmt: skip


def _steps(name: str, steps: Any) -> Steps | None:
    if steps is None:
        return None
    rule = "'steps' has batch (rising whole numbers from 1), seconds (as many, above 0) and per_request (from 1)"
    if not isinstance(steps, dict):
        raise UsageError(f"{name}: {rule}.")
    batch, seconds, each = steps.get("batch"), steps.get("seconds"), steps.get("per_request", 1)
    if not isinstance(batch, list) or not isinstance(seconds, list) or not 0 < len(batch) == len(seconds):
        raise UsageError(f"{name}: {rule}.")
    whole = all(type(number) is int and 1 <= number <= _MOST for number in [*batch, each])
    timed = all(isinstance(number, int | float) and 0 < number <= _MOST for number in seconds)
    if not whole or not timed or sorted(set(batch)) != batch:
        raise UsageError(f"{name}: {rule}.")
    return Steps(batch=tuple(batch), seconds=tuple(map(float, seconds)), per_request=each)


@frozen(kw_only=True)
class Capacity:
    """The rate that one replica can serve within the SLO.

    point: the measured point with the highest rate that meets the SLO.
    low, value: its goodput a second, with the low end of the interval.
    high: the rate of the next measured point, which misses the SLO: the true capacity is below; of the last point the
        high end of its interval.
    bounded: whether there is such a next point.
    """

    point: LoadPoint
    low: float
    value: float
    high: float
    bounded: bool


def capacity(curve: LoadCurve, met: float = MET) -> Capacity:
    """The capacity by measured points alone.

    Points beyond the first that misses the SLO do not count, also where one of them meets it by chance. Raises
    AiperfError where no point meets the SLO.
    """
    if not 0 < met <= 1:
        raise UsageError(f"--met takes the share of requests within the SLO, above 0 and at most 1; got {met:g}.")
    kept: LoadPoint | None = None
    missed: LoadPoint | None = None
    for point in curve.points:
        if point.share < met:
            missed = point
            break
        kept = point
    if kept is None:
        best = max(curve.points, key=lambda point: point.share)
        raise AiperfError(
            f"no measured point of {curve.file} meets the SLO: {units.percent(met)} of requests in time are asked, "
            f"and the best of {len(curve.points)} points has {units.percent(best.share)} at {best.rate_per_s:g} "
            "requests/s. Measure lower rates, or relax the SLO."
        )
    high = max(missed.rate_per_s, kept.goodput_high) if missed else kept.goodput_high
    return Capacity(point=kept, low=kept.goodput_low, value=kept.goodput_per_s, high=high, bounded=missed is not None)


def replicas_for(peak_per_s: float, headroom: float, goodput_per_s: float) -> int:
    """ceil(peak (1 + headroom) / goodput). Raises AiperfError for more than can be counted on."""
    count = peak_per_s * (1 + headroom) / goodput_per_s - 1e-9
    if count > _MOST_REPLICAS:
        raise AiperfError(
            f"more than {_MOST_REPLICAS:,} replicas would be needed for {peak_per_s:g} requests/s with a headroom of "
            f"{headroom:g}, at {goodput_per_s:g} requests/s each. Lower the peak or the headroom."
        )
    return math.ceil(count)


def at_least(needed: int, total: int, available: float) -> float:
    """The probability that at least `needed` of `total` replicas are up, each by itself with `available`: binomial."""
    logs = (
        math.lgamma(total + 1) - math.lgamma(up + 1) - math.lgamma(total - up + 1)
        + up * math.log(available) + ((total - up) * math.log1p(-available) if total > up else 0.0)
        for up in range(needed, total + 1)
    )  # fmt: skip
    return min(1.0, math.fsum(map(math.exp, logs)))


def with_spares(needed: int, available: float, wish: float) -> int:
    """The smallest number of replicas of which `needed` are up with the probability `wish`.

    Replicas fail independently. Raises UsageError for probabilities outside of 0 to 1.
    """
    if not 0 < available <= 1 or not 0 < wish < 1:
        raise UsageError(
            f"the availability of a replica must be above 0 and at most 1, and the wished one between 0 and 1; got "
            f"{available:g} and {wish:g}."
        )
    if available == 1:
        return needed
    totals = range(needed, _MOST_REPLICAS + 1)
    more = bisect_left(totals, True, key=lambda total: at_least(needed, total, available) >= wish)
    if more == len(totals):
        raise AiperfError(
            f"more than {_MOST_REPLICAS:,} replicas would be needed for {wish:g} with {available:g} each. Lower the "
            "wish."
        )
    return needed + more


@frozen(kw_only=True)
class Held:
    """The memory of a GPU of a replica.

    concurrency: requests in the replica at once.
    weights, cache, reserve: bytes of a GPU.
    """

    tensor: int
    concurrency: float
    weights: float
    cache: float
    reserve: float

    @property
    def total(self) -> float:
        """All bytes."""
        return self.weights + self.cache + self.reserve


def held(
    shape: ModelShape, rate_per_s: float, residence_s: float, tokens: int, *, tensor: int, reserve: float,
    dtype: str | None = None, kv_dtype: str = "bf16", page: int = 1,
) -> Held:  # fmt: skip
    """Weights / TP + cache of the requests at once + reserve. Their number is rate x residence (Little, 1961)."""
    concurrency = rate_per_s * residence_s
    whole = cache_bytes(cached(shape), kv_dtype, tokens, max(1, math.ceil(concurrency)), page=page)
    return Held(
        tensor=tensor, concurrency=concurrency, weights=weight_bytes(shape, dtype) / tensor,
        cache=whole / shape.cache_parts(tensor),
        reserve=reserve,
    )  # fmt: skip


@frozen(kw_only=True)
class Sized:
    """The replicas for a demand.

    needed: replicas that carry the peak, by the measured goodput; least, most: by the ends of its range.
    total: with spares; total_least, total_most: by the same ends.
    """

    capacity: Capacity
    needed: int
    least: int
    most: int
    total: int
    total_least: int
    total_most: int


def size(
    curve: LoadCurve, peak_per_s: float, *, headroom: float = 0.0, met: float = MET, available: float = 1.0,
    wish: float = 0.999,
) -> Sized:  # fmt: skip
    """The replicas for a peak rate, as a range. Raises UsageError and AiperfError."""
    if not (math.isfinite(peak_per_s) and peak_per_s > 0) or not (math.isfinite(headroom) and headroom >= 0):
        raise UsageError(
            f"the peak rate must be above 0 and the headroom 0 or more; got {peak_per_s:g} and {headroom:g}."
        )
    one_replica = capacity(curve, met)
    goodputs = (one_replica.value, one_replica.high, one_replica.low or math.inf)
    needed, least, most = (replicas_for(peak_per_s, headroom, goodput) for goodput in goodputs)
    if one_replica.low <= 0:
        raise AiperfError(
            f"the goodput of {curve.file} at {one_replica.point.rate_per_s:g} requests/s begins at 0, so no number of "
            "replicas is enough for certain. Measure the point for longer."
        )
    total, total_least, total_most = (with_spares(count, available, wish) for count in (needed, least, most))
    return Sized(
        capacity=one_replica, needed=needed, least=least, most=most, total=total, total_least=total_least,
        total_most=total_most,
    )  # fmt: skip
