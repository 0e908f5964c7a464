"""Loads in a store: their points as rows."""

from collections.abc import Sequence

import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.store import tables
from aiperf_analysis.store.values import Values, as_json
from aiperf_calc.load_documents import KIND, LoadFigure, Point, read
from aiperf_core.results.bundle import Bundle


@frozen
class LoadContent:
    """What a load adds to the tables."""

    load: Values
    points: Sequence[Values]


def contents(bundle: Bundle) -> list[LoadContent]:
    """Rows that the loads of a bundle add. Raises BundleError for a load of another format."""
    return [_content(bundle, name) for name in bundle.documents(KIND)]


def _content(bundle: Bundle, name: str) -> LoadContent:
    document, load = read(bundle, name)
    knee = load.knee
    values = {
        "name": name,
        "created": document.created,
        "mode": load.mode,
        "origin": load.origin,
        "complete": load.complete,
        "met": knee.met if knee else None,
        **_figure("capacity_per_s", knee.capacity_per_s if knee else None),
        **_figure("knee_per_s", knee.rate_per_s if knee else None),
    }
    return LoadContent(values, [{"position": place, **_point(one)} for place, one in enumerate(load.points)])


def _point(point: Point) -> Values:
    """The values of a point. One that is not trusted has no figures, so that no statement can use them."""
    spec, figures = point.spec, _figures(point)
    return {
        "name": point.name,
        "started": point.started,
        "complete": point.complete,
        "trusted": point.trusted,
        "state": point.state,
        "reasons": as_json(point.reasons) if point.reasons else None,
        "url": spec.server.url,
        "endpoint": spec.server.endpoint,
        "model": spec.server.model,
        "arrivals": spec.arrivals.kind,
        "rate_per_s": spec.arrivals.rate_per_s,
        "burstiness": spec.arrivals.burstiness,
        "clients": spec.arrivals.clients,
        "input_low": spec.workload.input_low,
        "input_high": spec.workload.input_high,
        "output_low": spec.workload.output_low,
        "output_high": spec.workload.output_high,
        "limit_ttft_s": spec.limits.ttft_s,
        "limit_tpot_s": spec.limits.tpot_s,
        "limit_e2e_s": spec.limits.e2e_s,
        "limit_gap_s": spec.limits.gap_s,
        "requests": point.requests,
        "outcomes": as_json(point.outcomes),
        "counted": point.counted,
        "counted_outcomes": as_json(point.counted_outcomes),
        "offered_per_s": point.offered_per_s,
        "lateness_p99_s": point.lateness_p99_s,
        "lateness_limit_s": point.lateness_limit_s,
        **(figures if point.trusted else dict.fromkeys(figures)),
    }


def _figures(point: Point) -> Values:
    values: Values = {name: getattr(point, name) for name in tables.LOAD_FIGURES}
    for name in tables.LOAD_ESTIMATES:
        values |= _figure(name, getattr(point, name))
    for column, (name, share) in tables.LOAD_PERCENTILES.items():
        values |= _figure(column, point.latencies[name][share])
    return values


def _figure(name: str, figure: LoadFigure | None) -> Values:
    """The columns of a figure and of the ends of its interval."""
    if figure is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"))
    return {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}


def insert_loads(connection: sa.Connection, contents: Sequence[LoadContent], bundle: int, created_s: float) -> None:
    """Insert the loads of a new bundle."""
    for content in contents:
        new = sa.insert(tables.load).values({**content.load, "bundle": bundle})
        links = {
            "load": connection.execute(new.returning(tables.load.c.id)).scalar_one(),
            "bundle": bundle,
            "created_s": created_s,
        }
        if content.points:
            connection.execute(sa.insert(tables.load_point), [{**values, **links} for values in content.points])
