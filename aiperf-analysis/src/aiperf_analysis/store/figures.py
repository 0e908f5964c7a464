"""Figures of many rows, by SQL from the tables alone: no file of a bundle is read.

Filters select targets by patterns. These are matched with the names that a store has, and go into the statements as
names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate, groupby
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.filters import Filters
from aiperf_analysis.lines import RowLine
from aiperf_analysis.selection import SeriesKey, fits
from aiperf_analysis.store import tables
from aiperf_analysis.store.database import BINARY, Database
from aiperf_analysis.store.values import problem_of
from aiperf_core.measurements import Estimate
from aiperf_core.report.metrics import SUMMARY, Metric, disbelief
from aiperf_core.report.result import Figure
from aiperf_core.results.models import Verdict

ROLES = ("baseline", "variant", "yardstick", "control")
CHUNK = 500  # values in a list of a statement
PART = 250  # rows of a long answer that are read at a time
NOT_BELIEVED = [verdict.value for verdict in Verdict if not verdict.is_believed]
DISTRUSTED = [verdict.value for verdict in Verdict if verdict.is_distrusted]
ALL = Filters()
Conditions = Sequence["sa.ColumnElement[bool]"]


def chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Parts of a list for statements, which take a limited number of values."""
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def newest_first() -> "tuple[sa.ColumnElement[Any], ...]":
    """The order of bundles in listings."""
    return tables.bundle.c.created_s.desc(), tables.bundle.c.name.desc(), tables.bundle.c.id


def chosen(connection: sa.Connection, filters: Filters) -> Conditions:
    """The conditions on `tables.target` that select what the filters do."""
    of = tables.target
    conditions: list[sa.ColumnElement[bool]] = []
    if filters.device is not None:
        conditions.append(_equals(of.c.device, filters.device))
    if filters.targets or filters.hardware is not None:
        pairs = connection.execute(sa.select(tables.newest.c.name, tables.newest.c.hardware).distinct()).all()
        hardware = filters.hardware if filters.hardware is not None else "*"
        kept = [pair for pair in pairs if fits(pair.name, filters.targets) and fnmatchcase(pair.hardware, hardware)]
        if len(kept) < len(pairs):
            conditions.append(sa.tuple_(of.c.name, of.c.hardware).in_([tuple(pair) for pair in kept]))
    return conditions + labelled(of.c.bundle, filters)


def labelled(bundle: "sa.Column[Any]", filters: Filters) -> "list[sa.ColumnElement[bool]]":
    """The conditions that a bundle, by its number, has the labels of the filters."""
    label = tables.label
    having = sa.select(label.c.bundle)
    return [
        bundle.in_(having.where(_equals(label.c.name, name), _equals(label.c.value, value)))
        for name, value in filters.labels
    ]


def newest(filters: Filters) -> sa.FromClause:
    """The newest results, by the column `target`: with labels, those of the bundles that have them."""
    if not filters.labels:
        return tables.newest
    of, bundle = tables.target, tables.bundle
    place = sa.func.row_number().over(
        partition_by=(of.c.name, of.c.hardware, of.c.device, of.c.params_hash),
        order_by=(of.c.created_s.desc(), bundle.c.name.desc()),
    )
    with_rows = sa.exists().where(tables.row.c.target == of.c.id)
    ranked = sa.select(of.c.id.label("target"), place.label("place")).join(bundle, bundle.c.number == of.c.bundle)
    placed = ranked.where(with_rows, *labelled(of.c.bundle, filters)).subquery()
    return sa.select(placed.c.target).where(placed.c.place == 1).subquery()


def _equals(column: "sa.Column[Any]", text: str) -> "sa.ColumnElement[bool]":
    """Condition that a column has this text; no column has one that an engine cannot hold."""
    return sa.false() if problem_of(text) else column == text


@frozen
class Counts:
    """The size of a store; `points` are those of loads."""

    bundles: int
    targets: int
    rows: int
    points: int


def state(database: Database) -> str:
    """A text that changes whenever a bundle is added, moved or pruned."""
    bundle = tables.bundle
    wanted = sa.select(sa.func.count(), sa.func.max(bundle.c.number), sa.func.max(bundle.c.ingested_s))
    with database.reading() as connection:
        count, last, ingested = connection.execute(wanted.select_from(bundle)).one()
        pruned = connection.execute(sa.select(sa.func.count()).select_from(tables.tombstone)).scalar()
    return f"{count}-{last}-{ingested}-{pruned}"


def counts(database: Database) -> Counts:
    """Count what is stored."""
    bundle = tables.bundle
    total = sa.select(sa.func.count(), sa.func.sum(bundle.c.targets), sa.func.sum(bundle.c.rows)).select_from(bundle)
    with database.reading() as connection:
        bundles, every, rows = connection.execute(total).one()
        points = connection.execute(sa.select(sa.func.count()).select_from(tables.load_point)).scalar_one()
    return Counts(bundles, int(every or 0), int(rows or 0), points)


@frozen
class Points:
    """The believed rows of a series in the order of time, as columns of one length.

    bundle: the seal of each row's bundle.
    created: when its run began.
    git: of the working directory of the run.
    floor: the smallest relative change that matters, by the newest row; 0 for no rows.
    figures: of each metric of `SUMMARY`, by its key.
    """

    bundle: Sequence[str]
    created: Sequence[str]
    git: Sequence[str | None]
    verdict: Sequence[str]
    floor: float
    figures: Mapping[str, Sequence[Estimate | None]]

    def __len__(self) -> int:
        return len(self.bundle)


def key_of(database: Database, digest: str) -> SeriesKey | None:
    """The key of the series with this digest; None where there is none."""
    of = tables.series
    with database.reading() as connection:
        stored = connection.execute(sa.select(of).where(_equals(of.c.digest, digest))).one_or_none()
    return None if stored is None else key_from(stored)


def key_from(stored: Any) -> SeriesKey:
    """The key that a row of the table `series` has."""
    return SeriesKey(
        target=stored.target,
        implementation=stored.implementation,
        device=stored.device,
        hardware=stored.hardware,
        params=tuple((name, value) for name, value in json.loads(stored.params)),
        clock=stored.clock,
        cache=stored.cache,
        precision=stored.precision,
    )


def series(database: Database, key: SeriesKey | str, limit: int = 10_000) -> Points:
    """The newest points of a series, at most `limit`. Empty for an unknown key.

    key: of the rows, or its digest.
    """
    digest = key if isinstance(key, str) else key.digest
    bundle, row, of = tables.bundle, tables.row, tables.target
    number = sa.select(tables.series.c.id).where(tables.series.c.digest == digest).scalar_subquery()
    # Thousands of rows are read: only columns of the index.
    names = tables.columns_of(SUMMARY)
    columns = (bundle.c.id, bundle.c.created, bundle.c.git, row.c.verdict, *(row.c[name] for name in names))
    believed = (row.c.series == number, row.c.verdict.not_in(NOT_BELIEVED))
    order = (row.c.created_s.desc(), row.c.bundle.desc())
    wanted = sa.select(*columns).select_from(row.join(bundle, bundle.c.number == row.c.bundle)).where(*believed)
    last = sa.select(of.c.floor).join(row, row.c.target == of.c.id).where(*believed).order_by(*order).limit(1)
    with database.reading() as connection:
        lists: list[list[Any]] = [[] for _ in columns]
        # Part by part: thousands of rows at once would set the garbage collector going.
        many = wanted.order_by(*order).limit(limit).execution_options(**{BINARY: True})
        for part in connection.execute(many).partitions(PART):
            for column, values in zip(lists, zip(*part, strict=True), strict=True):
                column.extend(values)
        floor = float(connection.execute(last).scalar() or 0.0)
    oldest_first = [column[::-1] for column in lists]
    by_name = dict(zip(names, oldest_first[4:], strict=True))
    figures = {metric.key: _estimates([by_name[name] for name in tables.columns_of([metric])]) for metric in SUMMARY}
    bundles, created, git, verdict = oldest_first[:4]
    return Points(bundles, created, git, verdict, floor, figures)


def _estimates(columns: list[list[float | None]]) -> list[Estimate | None]:
    """The figures of a metric; one without an interval is its own."""
    if len(columns) == 1:
        columns = columns * 3
    return [
        None if value is None or low is None or high is None else Estimate(value, low, high)
        for value, low, high in zip(*columns, strict=True)
    ]


def _rows() -> "sa.Select[Any]":
    """The columns that a `RowLine` is made of."""
    of, row, bundle, key = tables.target, tables.row, tables.bundle, tables.series
    return sa.select(
        of.c.name.label("target"),
        *(of.c[name] for name in ("hardware", "device", "params", "goal")),
        bundle.c.id.label("bundle"),
        bundle.c.created,
        row.c.name.label("row"),
        *(row.c[name] for name in ("role", "verdict", "reason", "missing", *tables.columns_of(SUMMARY))),
        key.c.digest,
    ).select_from(
        of.join(bundle, bundle.c.number == of.c.bundle)
        .join(row, row.c.target == of.c.id)
        .join(key, key.c.id == row.c.series)
    )


def newest_variants(connection: sa.Connection, filters: Filters, most: int) -> list[RowLine]:
    """The believed variants of the newest results that the filters select, at most `most`, the newest first."""
    of, row = tables.target, tables.row
    believed = (row.c.role == "variant", row.c.verdict.not_in(NOT_BELIEVED), *chosen(connection, filters))
    wanted = _rows().where(of.c.id.in_(sa.select(newest(filters).c.target)), *believed)
    stored = connection.execute(wanted.order_by(of.c.created_s.desc(), of.c.name, row.c.position).limit(most))
    return [_row_line(one) for one in stored]


def _row_line(stored: Any) -> RowLine:
    verdict = Verdict(stored.verdict)
    doubt = disbelief(verdict, stored.reason)
    missing = json.loads(stored.missing) if stored.missing else {}
    return RowLine(
        bundle=stored.bundle,
        created=stored.created,
        target=stored.target,
        row=stored.row,
        hardware=stored.hardware,
        device=stored.device,
        params=dict(json.loads(stored.params)),
        goal=stored.goal,
        role=stored.role,
        verdict=verdict,
        reason=stored.reason,
        series=stored.digest,
        figures={
            metric.key: _figure(metric, stored._mapping, doubt, missing.get(metric.key, "")) for metric in SUMMARY
        },
    )


def _figure(metric: Metric, values: Mapping[Any, Any], doubt: str, missing: str) -> Figure:
    if doubt:
        return Figure(value=None, unit=metric.unit, reason=doubt)
    value, low, high = (values.get(f"{metric.key}{end}") for end in tables.ENDS)
    return metric.restored(value, low, high, missing)


@frozen
class Matches:
    """The rows that match, by their bundles, the newest first.

    bundles: the number of each bundle, with the number of its rows that match.
    filters, words: what the rows match.
    """

    bundles: Sequence[tuple[int, int]]
    filters: Filters
    words: Sequence[str]

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(count for _, count in self.bundles)


def matches(database: Database, filters: Filters = ALL, words: Sequence[str] = ()) -> Matches:
    """The rows that the filters select and whose texts contain all words, which are in small letters."""
    of, row, bundle = tables.target, tables.row, tables.bundle
    with database.reading() as connection:
        conditions = [*chosen(connection, filters), *_with_words(database, words)]
        wanted: sa.Select[Any] = sa.select(bundle.c.number, bundle.c.rows)
        if conditions:
            joined = bundle.join(of, of.c.bundle == bundle.c.number).join(row, row.c.target == of.c.id)
            wanted = sa.select(bundle.c.number, sa.func.count()).select_from(joined).where(*conditions)
            wanted = wanted.group_by(bundle.c.number)
        counted = connection.execute(wanted.order_by(*newest_first())).all()
        return Matches([(number, count) for number, count in counted], filters, words)


def rows_of_bundle(database: Database, begin: str) -> list[RowLine]:
    """The rows of the bundle whose seal begins so; empty for none and for several."""
    bundle = tables.bundle
    wanted = sa.select(bundle.c.number, bundle.c.rows).where(bundle.c.id.startswith(begin, autoescape=True)).limit(2)
    with database.reading() as connection:
        bundles = [(number, count) for number, count in connection.execute(wanted)]
    return rows(database, Matches(bundles, ALL, ()), 0, bundles[0][1]) if len(bundles) == 1 else []


def _with_words(database: Database, words: Sequence[str]) -> Conditions:
    """The conditions on rows that their texts contain all words."""
    return [sa.false() if problem_of(word) else _with_word(database, word) for word in words]


def _with_word(database: Database, word: str) -> "sa.ColumnElement[bool]":
    """The condition that a text of a row contains a word. Each of its parts finds rows by an index, or is left out."""
    row, key = tables.row, tables.series
    place = sa.func.instr if database.is_sqlite else sa.func.strpos
    series = sa.select(key.c.id).where(place(key.c.texts, word) > 0)
    reasons = sa.select(row.c.reason).where(row.c.reason.is_not(None), place(sa.func.lower(row.c.reason), word) > 0)
    parts = [row.c.series.in_(series), row.c.reason.in_(reasons.distinct())]
    named = {
        row.c.role: [role for role in ROLES if word in role],
        row.c.verdict: [verdict.value for verdict in Verdict if word in verdict.value.lower()],
    }
    return sa.or_(*parts, *(column.in_(values) for column, values in named.items() if values))


def rows(database: Database, matching: Matches, start: int, stop: int) -> list[RowLine]:
    """A part of the rows that match, those of the newest bundles first."""
    ends = accumulate(count for _, count in matching.bundles)
    spans = [(number, end - count, end) for (number, count), end in zip(matching.bundles, ends, strict=True)]
    within = [(number, first) for number, first, end in spans if first < stop and end > start]
    of, row = tables.target, tables.row
    answer: list[RowLine] = []
    with database.reading() as connection:
        conditions = [*chosen(connection, matching.filters), *_with_words(database, matching.words)]
        for some in chunks(within):
            wanted = _rows().where(of.c.bundle.in_([number for number, _ in some]), *conditions)
            wanted = wanted.order_by(*newest_first(), of.c.name, row.c.position)
            part = connection.execute(wanted.offset(max(0, start - some[0][1])).limit(stop - start - len(answer)))
            answer += [_row_line(stored) for stored in part]
    return answer


def bundles(database: Database, filters: Filters = ALL) -> list[int]:
    """The numbers of the bundles that the filters select, newest first; of those with rows where rows are selected."""
    if filters.narrows_rows:
        return [number for number, _ in matches(database, filters).bundles]
    bundle = tables.bundle
    with database.reading() as connection:
        wanted = sa.select(bundle.c.number).where(*labelled(bundle.c.number, filters))
        return list(connection.execute(wanted.order_by(*newest_first())).scalars())


@frozen
class RowsOf:
    """The rows of a target of a bundle that have a role and a verdict in common."""

    target: str
    hardware: str
    role: str
    verdict: str
    rows: int


def by_bundle(database: Database, bundles: Sequence[int], filters: Filters = ALL) -> dict[str, list[RowsOf]]:
    """The rows of some bundles that the filters select, by the seal of the bundle.

    bundles: their numbers, a part of a list.
    """
    of, row, bundle = tables.target, tables.row, tables.bundle
    by = (bundle.c.id, of.c.name, of.c.hardware, row.c.role, row.c.verdict)
    joined = of.join(row, row.c.target == of.c.id).join(bundle, bundle.c.number == of.c.bundle)
    wanted = sa.select(*by, sa.func.count()).select_from(joined).where(of.c.bundle.in_(bundles)).group_by(*by)
    with database.reading() as connection:
        counted = connection.execute(wanted.where(*chosen(connection, filters)).order_by(*by)).all()
    return {
        seal: [RowsOf(*stored[1:]) for stored in some] for seal, some in groupby(counted, key=lambda stored: stored.id)
    }
