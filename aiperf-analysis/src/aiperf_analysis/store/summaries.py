"""Summaries of the newest results for the dashboard's first page, by SQL alone."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.filters import Filters
from aiperf_analysis.history.newest import Standing, newest
from aiperf_analysis.history.noise import logs
from aiperf_analysis.lines import NO_REASON, Distrusted, Newest, in_order
from aiperf_analysis.selection import SeriesKey
from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database
from aiperf_analysis.store.figures import NOT_BELIEVED, chosen, key_from, labelled
from aiperf_analysis.store.figures import newest as newest_of
from aiperf_core.measurements import Estimate

RECENT = 24  # newest runs of a series that its newest run is held to


@frozen
class Worse:
    """A series whose newest run is worse than its last runs. `bundle` is the seal of the newest."""

    digest: str
    key: SeriesKey
    bundle: str
    newest: Estimate
    standing: Standing


def newest_results(database: Database, filters: Filters, most: int) -> Newest:
    """The newest results, with at most `most` rows that are not believed."""
    of, row, bundle, target = newest_of(filters), tables.row, tables.bundle, tables.target
    joined = of.join(row, row.c.target == of.c.target).join(target, target.c.id == of.c.target)
    columns = (bundle.c.id, target.c.name, row.c.name.label("row"), target.c.params, row.c.verdict, row.c.reason)
    with database.reading() as connection:
        conditions = chosen(connection, filters)
        disbelieved = (row.c.verdict.in_(NOT_BELIEVED), *conditions)
        few = sa.select(*columns).select_from(joined.join(bundle, bundle.c.number == row.c.bundle)).where(*disbelieved)
        every = sa.select(sa.func.count()).select_from(joined).where(*disbelieved)
        names = sa.select(target.c.name).distinct().select_from(joined).where(*conditions).order_by(target.c.name)
        by_verdict = sa.select(row.c.verdict, sa.func.count().label("rows")).select_from(joined).group_by(row.c.verdict)
        counts = connection.execute(by_verdict.where(row.c.role == "variant", *conditions)).all()
        return Newest(
            verdicts=in_order({one.verdict: one.rows for one in counts}),
            distrusted=[
                Distrusted(
                    bundle=one.id,
                    target=one.name,
                    row=one.row,
                    params=dict(json.loads(one.params)),
                    verdict=one.verdict,
                    reason=one.reason or NO_REASON,
                )
                for one in connection.execute(few.order_by(target.c.name, row.c.position).limit(most))
            ],
            every_distrusted=connection.execute(every).scalar_one(),
            targets=list(connection.execute(names).scalars()),
        )


def worse(database: Database, filters: Filters) -> tuple[list[Worse], int]:
    """The series whose newest time is a suspect or a regression against their last runs, and the number of all series.

    Only series of the newest results count, with the floor of the newest result.
    """
    of, row, target = newest_of(filters), tables.row, tables.target
    joined = of.join(row, row.c.target == of.c.target).join(target, target.c.id == of.c.target)
    current = (
        sa.select(row.c.series, target.c.floor)
        .select_from(joined)
        .where(row.c.role != "control", row.c.verdict.not_in(NOT_BELIEVED))
    )
    with database.reading() as connection:
        chosen_series = connection.execute(current.where(*chosen(connection, filters))).all()
        floors: dict[int, float] = {one[0]: one[1] for one in chosen_series}
        found = [
            (series, standing, last, number)
            for series, points in _recent(connection, list(floors), filters).items()
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


def _recent(
    connection: sa.Connection, series: Sequence[int], filters: Filters
) -> dict[int, list[tuple[Estimate, int]]]:
    """The last believed times of each series in the order of time, each with the number of its bundle."""
    row = tables.row
    last = (
        sa.select(row.c.series, row.c.created_s, row.c.bundle, row.c.time_s, row.c.time_s_low, row.c.time_s_high)
        .where(
            row.c.series == sa.bindparam("one"),
            row.c.verdict.not_in(NOT_BELIEVED),
            row.c.time_s > 0,
            row.c.time_s_low > 0,
            *labelled(row.c.bundle, filters),
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
