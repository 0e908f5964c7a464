"""What the dashboard's first pages ask a large store: by SQL alone, without reading results."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.history.newest import Standing, newest
from aiperf_analysis.history.noise import logs
from aiperf_analysis.selection import SeriesKey
from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database
from aiperf_analysis.store.reading import NOT_BELIEVED, key_from
from aiperf_core.measurements import Estimate

RECENT = 24  # newest runs of a series that its newest run is held to


@frozen
class Distrusted:
    """A row of a newest result that is not believed."""

    bundle: str
    target: str
    row: str
    params: dict[str, float]
    verdict: str
    reason: str | None


@frozen
class Worse:
    """A series whose newest run is worse than its last runs. `bundle` is the seal of the newest."""

    digest: str
    key: SeriesKey
    bundle: str
    newest: Estimate
    standing: Standing


def targets(database: Database) -> list[str]:
    """The names of all targets."""
    with database.reading() as connection:
        return list(connection.execute(sa.select(tables.newest.c.name).distinct().order_by("name")).scalars())


def verdicts(database: Database, bundles: Sequence[str]) -> dict[str, list[tuple[str, str, str, int]]]:
    """Of some bundles, by seal: target, role, verdict and the number of such rows."""
    bundle, of, row = tables.bundle, tables.target, tables.row
    by = (bundle.c.id, of.c.name, row.c.role, row.c.verdict)
    joined = bundle.join(of, of.c.bundle == bundle.c.number).join(row, row.c.target == of.c.id)
    wanted = sa.select(*by, sa.func.count()).select_from(joined).where(bundle.c.id.in_(bundles)).group_by(*by)
    found: dict[str, list[tuple[str, str, str, int]]] = {}
    with database.reading() as connection:
        for seal, *rest in connection.execute(wanted.order_by(of.c.name)):
            found.setdefault(seal, []).append((rest[0], rest[1], rest[2], rest[3]))
    return found


def distrusted(database: Database, most: int) -> tuple[list[Distrusted], int]:
    """The rows of the newest results that are not believed, at most `most`, and the number of all."""
    of, row, bundle, target = tables.newest, tables.row, tables.bundle, tables.target
    joined = of.join(row, row.c.target == of.c.target).join(bundle, bundle.c.number == row.c.bundle)
    chosen = row.c.verdict.in_(NOT_BELIEVED)
    columns = (bundle.c.id, of.c.name, row.c.name.label("row"), target.c.params, row.c.verdict, row.c.reason)
    wanted = sa.select(*columns).select_from(joined.join(target, target.c.id == of.c.target))
    count = sa.select(sa.func.count()).select_from(joined).where(chosen)
    with database.reading() as connection:
        found = connection.execute(wanted.where(chosen).order_by(of.c.name, row.c.position).limit(most)).all()
        few = [
            Distrusted(one.id, one.name, one.row, dict(json.loads(one.params)), one.verdict, one.reason)
            for one in found
        ]
        return few, connection.execute(count).scalar_one()


def worse(database: Database) -> tuple[list[Worse], int]:
    """The series whose newest time is a suspect or a regression against their last runs, and the number of all series.

    Only series of the newest results count, with the floor of the newest result.
    """
    of, row, target = tables.newest, tables.row, tables.target
    joined = of.join(row, row.c.target == of.c.target).join(target, target.c.id == of.c.target)
    current = (
        sa.select(row.c.series, target.c.floor)
        .select_from(joined)
        .where(row.c.role != "control", row.c.verdict.not_in(NOT_BELIEVED))
    )
    with database.reading() as connection:
        floors: dict[int, float] = {one[0]: one[1] for one in connection.execute(current).all()}
        found = [
            (series, standing, last, number)
            for series, points in _recent(connection, list(floors)).items()
            if _may_be_worse(points, floors[series])
            and (standing := _standing(points, floors[series], len(floors))).word in ("SUSPECT", "REGRESSION")
            and standing.worse
            for last, number in [points[-1]]
        ]
        keys = {one.id: one for one in _of_ids(connection, tables.series.c.id, [one[0] for one in found])}
        seals = {one.number: one.id for one in _of_ids(connection, tables.bundle.c.number, [one[3] for one in found])}
    return [
        Worse(keys[series].digest, key_from(keys[series]), seals[number], last, standing)
        for series, standing, last, number in found
    ], len(floors)


def _recent(connection: sa.Connection, series: Sequence[int]) -> dict[int, list[tuple[Estimate, int]]]:
    """The last believed times of each series in the order of time, each with the number of its bundle."""
    row = tables.row
    last = (
        sa.select(row.c.series, row.c.created_s, row.c.bundle, row.c.time_s, row.c.time_s_low, row.c.time_s_high)
        .where(
            row.c.series == sa.bindparam("one"),
            row.c.verdict.not_in(NOT_BELIEVED),
            row.c.time_s > 0,
            row.c.time_s_low > 0,
        )
        .order_by(row.c.created_s.desc(), row.c.bundle.desc())
        .limit(RECENT)
    )
    # One seek in the index for each series: a window over all rows would read them all.
    rows = [one for number in series for one in reversed(connection.execute(last, {"one": number}).all())]
    return {
        number: [(Estimate(one.time_s, one.time_s_low, one.time_s_high), one.bundle) for one in some]
        for number, some in groupby(rows, key=lambda one: one.series)
    }


def _may_be_worse(points: Sequence[tuple[Estimate, int]], floor: float) -> bool:
    """Whether the newest run is slow enough for a judgement, which takes a thousand times longer than this look."""
    before = sorted(one.value for one, _ in points[:-1])
    return bool(before) and points[-1][0].value > before[len(before) // 2] * (1 + floor / 2)


def _standing(points: Sequence[tuple[Estimate, int]], floor: float, family: int) -> Standing:
    values, within = logs([one for one, _ in points])
    return newest(np.asarray(values), np.asarray(within), floor, "down", family=max(1, family))


def _of_ids(connection: sa.Connection, column: "sa.Column[int]", ids: Sequence[int]) -> Sequence[Any]:
    return connection.execute(sa.select(column.table).where(column.in_(ids))).all()
