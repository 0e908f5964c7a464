"""The curve of one replica from a bundle that `aiperf load sweep` wrote."""

from pathlib import Path

from aiperf_calc.load_documents import KIND, Point, read
from aiperf_calc.sizing import LoadCurve, LoadPoint
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal_check import SealError, check


def read_bundle(path: Path) -> LoadCurve:
    """The curve of the only load of a bundle.

    Points that are not trusted or were interrupted are left out. The rate of a point is that of the requests that
    arrived, so that its share is that of the good requests.

    Raises BundleError or UsageError for a folder without one load, SealError for a bundle that was changed, and
    AiperfError for a load without a point that counts.
    """
    bundle = Bundle.open(path)
    sealed = check(bundle)
    if not sealed.holds:
        raise SealError(sealed.told())
    names = bundle.documents(KIND)
    if len(names) != 1:
        loads = f"{len(names)} loads, {', '.join(names)}" if names else "no load"
        raise UsageError(
            f"'{path}' has {loads}; sizing takes a bundle with one load. Measure it: aiperf load sweep URL"
        )
    points = read(bundle, names[0])[1].points
    kept = [_point(point) for point in points if point.trusted and point.complete and _good(point)]
    if not kept:
        raise AiperfError(
            f"none of the {len(points)} points of '{path}' can be used: a point must be trusted, complete and with a "
            "goodput. Imported results are never trusted. Measure on a quieter machine: aiperf load sweep URL"
        )
    limits = {point.spec.limits.e2e_s for point in points}
    limit = limits.pop() if len(limits) == 1 else None
    return LoadCurve(file=f"'{path}'", points=tuple(sorted(kept, key=lambda point: point.rate_per_s)), limit_s=limit)


def _good(point: Point) -> bool:
    return point.offered_per_s > 0 and point.goodput_per_s.value is not None


def _point(point: Point) -> LoadPoint:
    good = point.goodput_per_s
    assert good.value is not None
    return LoadPoint(
        rate_per_s=point.offered_per_s,
        goodput_per_s=good.value,
        goodput_low=good.value if good.low is None else good.low,
        goodput_high=good.value if good.high is None else good.high,
        residence_s=point.residence_s,
    )
