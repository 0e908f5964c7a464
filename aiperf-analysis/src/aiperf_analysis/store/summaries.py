"""Summaries of the newest results for the dashboard's first page, by SQL alone."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.filters import Filters
from aiperf_analysis.history.newest import Standing, newest
from aiperf_analysis.history.noise import logs
from aiperf_analysis.lines import NO_REASON, RECENT, Distrusted, Newest, best_of, in_order, with_profiles
from aiperf_analysis.selection import SeriesKey
from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database
from aiperf_analysis.store.figures import DISTRUSTED, NOT_BELIEVED, chosen, key_from, labelled, newest_variants
from aiperf_analysis.store.figures import newest as newest_of
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Verdict

MOST_VARIANTS = 2_000  # of the newest results that the best are looked for among


@frozen
class Worse:
    """A series whose newest run is worse than its last runs. `bundle` is the seal of the newest."""

    digest: str
    key: SeriesKey
    bundle: str
    newest: Estimate
    standing: Standing


def newest_results(database: Database, filters: Filters, most: int) -> Newest:
    """The newest results, with at most `most` rows that are not trusted."""
    of, row, bundle, target = newest_of(filters), tables.row, tables.bundle, tables.target
    joined = of.join(row, row.c.target == of.c.target).join(target, target.c.id == of.c.target)
    columns = (bundle.c.id, target.c.name, row.c.name.label("row"), target.c.params, row.c.verdict, row.c.reason)
    with database.reading() as connection:
        conditions = chosen(connection, filters)
        distrusted = (row.c.verdict.in_(DISTRUSTED), *conditions)
        few = sa.select(*columns).select_from(joined.join(bundle, bundle.c.number == row.c.bundle)).where(*distrusted)
        names = sa.select(target.c.name).distinct().select_from(joined).where(*conditions).order_by(target.c.name)
        kinds = (row.c.verdict, row.c.role)
        counted = sa.select(*kinds, sa.func.count().label("rows")).select_from(joined).where(*conditions)
        variants, every = Counter[str](), Counter[str]()
        for stored in connection.execute(counted.group_by(*kinds)):
            every[stored.verdict] += stored.rows
            variants[stored.verdict] += stored.rows if stored.role == "variant" else 0
        best = best_of(newest_variants(connection, filters, MOST_VARIANTS))
        return Newest(
            verdicts=in_order(variants),
            distrusted=[
                Distrusted(
                    bundle=stored.id,
                    target=stored.name,
                    row=stored.row,
                    params=dict(json.loads(stored.params)),
                    verdict=stored.verdict,
                    reason=stored.reason or NO_REASON,
                )
                for stored in connection.execute(few.order_by(target.c.name, row.c.position).limit(most))
            ],
            every_distrusted=sum(every[verdict] for verdict in DISTRUSTED),
            skipped=every[Verdict.SKIPPED],
            targets=list(connection.execute(names).scalars()),
            best=best,
            courses=_courses(connection, [one.series for one in best], filters),
        )


def _courses(connection: sa.Connection, digests: Sequence[str], filters: Filters) -> dict[str, list[float]]:
    """The last believed times of these series, by the digest of each."""
    numbers = {stored.id: stored.digest for stored in _of_ids(connection, tables.series.c.digest, digests)}
    recent = _recent(connection, list(numbers), filters)
    return {numbers[number]: [time.value for time, _ in points] for number, points in recent.items()}


def contents(database: Database) -> frozenset[str]:
    """The tiers of the newest results, and which of `energy`, `profiles` and the kinds of documents there are."""
    of, row, target, bundle = tables.newest, tables.row, tables.target, tables.bundle
    of_rows = sa.select(row.c.bundle).select_from(of.join(row, row.c.target == of.c.target))
    kept = {
        "energy": of_rows.where(row.c.joules_per_call.is_not(None)),
        "load": sa.select(tables.load.c.id),
        "fleet": sa.select(tables.fleet.c.id),
    }
    names = [sa.select(sa.literal(name)).where(sa.exists(wanted)) for name, wanted in kept.items()]
    tiers = sa.select(target.c.tier).distinct().select_from(of.join(target, target.c.id == of.c.target))
    folders = sa.select(bundle.c.path).order_by(bundle.c.number.desc()).limit(MOST_VARIANTS)
    with database.reading() as connection:
        found = connection.execute(sa.union_all(tiers, *names)).scalars().all()
        return frozenset({*found, *with_profiles(connection.execute(folders).scalars())})


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
        floors: dict[int, float] = {stored[0]: stored[1] for stored in chosen_series}
        worsened = [
            (series, standing, last, number)
            for series, points in _recent(connection, list(floors), filters).items()
            if _may_be_worse(points, floors[series])
            and (standing := _standing(points, floors[series], len(floors))).word in ("SUSPECT", "REGRESSION")
            and standing.worse
            for last, number in [points[-1]]
        ]
        keys = {
            stored.id: stored for stored in _of_ids(connection, tables.series.c.id, [stored[0] for stored in worsened])
        }
        seals = {
            stored.number: stored.id
            for stored in _of_ids(connection, tables.bundle.c.number, [stored[3] for stored in worsened])
        }
    return [
        Worse(keys[series].digest, key_from(keys[series]), seals[number], last, standing)
        for series, standing, last, number in worsened
    ], len(floors)


def _recent(
    connection: sa.Connection, series: Sequence[int], filters: Filters
) -> dict[int, list[tuple[Estimate, int]]]:
    """The last believed times of each series in the order of time, each with the number of its bundle."""
    row = tables.row
    last = (
        sa.select(row.c.series, row.c.created_s, row.c.bundle, row.c.time_s, row.c.time_s_low, row.c.time_s_high)
        .where(
            row.c.series == sa.bindparam("number"),
            row.c.verdict.not_in(NOT_BELIEVED),
            row.c.time_s > 0,
            row.c.time_s_low > 0,
            *labelled(row.c.bundle, filters),
        )
        .order_by(row.c.created_s.desc(), row.c.bundle.desc())
        .limit(RECENT)
    )
    # One seek in the index for each series: a window over all rows would read them all.
    rows = [point for number in series for point in reversed(connection.execute(last, {"number": number}).all())]
    return {
        number: [(Estimate(point.time_s, point.time_s_low, point.time_s_high), point.bundle) for point in some]
        for number, some in groupby(rows, key=lambda point: point.series)
    }


def _may_be_worse(points: Sequence[tuple[Estimate, int]], floor: float) -> bool:
    """Whether the newest run is slow enough for a judgement, which takes a thousand times longer than this look."""
    before = sorted(time.value for time, _ in points[:-1])
    return bool(before) and points[-1][0].value > before[len(before) // 2] * (1 + floor / 2)


def _standing(points: Sequence[tuple[Estimate, int]], floor: float, family: int) -> Standing:
    values, within = logs([time for time, _ in points])
    return newest(np.asarray(values), np.asarray(within), floor, "down", family=max(1, family))


def _of_ids(connection: sa.Connection, column: "sa.Column[Any]", ids: Sequence[Any]) -> Sequence[Any]:
    return connection.execute(sa.select(column.table).where(column.in_(ids))).all()
