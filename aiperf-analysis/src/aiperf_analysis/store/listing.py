"""The bundles of a store in a list."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.filters import Filters
from aiperf_analysis.lines import RunLine, most_frequent
from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database
from aiperf_analysis.store.figures import DISTRUSTED, RowsOf, by_bundle, chunks, newest_first
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import Verdict


@frozen
class Stored:
    """A bundle of a store.

    loads: the number of points of each load by its name.
    fleets: how each fleet ended, by its name.
    folder: `there`, `gone`, or `pruned` where `aiperf db prune` removed it.
    """

    id: str
    name: str
    path: str
    created: str
    targets: int
    rows: int
    complete: bool
    exit_code: int | None
    hardware: list[str]
    labels: dict[str, str]
    loads: dict[str, int]
    fleets: dict[str, str]
    folder: str


def listed(database: Database, limit: int | None = None, only: Sequence[int] | None = None) -> list[Stored]:
    """The bundles of a store, newest first; at most `limit`.

    only: the numbers of some bundles; None stands for all.
    """
    bundle, tombstone, label, target = tables.bundle, tables.tombstone, tables.label, tables.target
    load, point, fleet = tables.load, tables.load_point, tables.fleet
    wanted = sa.select(bundle, tombstone.c.pruned_s).join(
        tombstone, tombstone.c.bundle == bundle.c.number, isouter=True
    )
    labels: dict[int, dict[str, str]] = {}
    kinds: dict[int, list[str]] = {}
    loads: dict[int, dict[str, int]] = {}
    fleets: dict[int, dict[str, str]] = {}
    with database.reading() as connection:
        wanted = wanted if only is None else wanted.where(bundle.c.number.in_(only))
        bundles = connection.execute(wanted.order_by(*newest_first()).limit(limit)).all()
        for some in chunks([stored.number for stored in bundles]):
            for number, name, value in connection.execute(sa.select(label).where(label.c.bundle.in_(some))):
                labels.setdefault(number, {})[name] = value
            of = sa.select(target.c.bundle, target.c.hardware).distinct().where(target.c.bundle.in_(some))
            for number, kind in connection.execute(of.order_by(target.c.hardware)):
                kinds.setdefault(number, []).append(kind)
            counted = sa.select(load.c.bundle, load.c.name, sa.func.count(point.c.load)).select_from(
                load.join(point, point.c.load == load.c.id, isouter=True)
            )
            counted = counted.where(load.c.bundle.in_(some)).group_by(load.c.bundle, load.c.name)
            for number, name, points in connection.execute(counted.order_by(load.c.name)):
                loads.setdefault(number, {})[name] = points
            ended = sa.select(fleet.c.bundle, fleet.c.name, fleet.c.state).where(fleet.c.bundle.in_(some))
            for number, name, state in connection.execute(ended.order_by(fleet.c.name)):
                fleets.setdefault(number, {})[name] = state
    return [
        Stored(
            id=stored.id,
            name=stored.name,
            path=stored.path,
            created=stored.created,
            targets=stored.targets,
            rows=stored.rows,
            complete=bool(stored.complete),
            exit_code=stored.exit_code,
            hardware=kinds.get(stored.number, []),
            labels=labels.get(stored.number, {}),
            loads=loads.get(stored.number, {}),
            fleets=fleets.get(stored.number, {}),
            folder=_state(stored.path, stored.pruned_s is not None),
        )
        for stored in bundles
    ]


def _state(path: str, pruned: bool) -> str:
    return "there" if (Path(path) / MANIFEST).exists() else "pruned" if pruned else "gone"


def run_lines(database: Database, bundles: Sequence[int], filters: Filters) -> list[RunLine]:
    """The bundles with these numbers as lines, with the rows that the filters select."""
    return [line for some in chunks(bundles) for line in _run_lines(database, some, filters)]


def _run_lines(database: Database, bundles: Sequence[int], filters: Filters) -> list[RunLine]:
    rows_of = by_bundle(database, bundles, filters)
    return [_run_line(stored, rows_of.get(stored.id, [])) for stored in listed(database, only=bundles)]


def _run_line(stored: Stored, rows: Sequence[RowsOf]) -> RunLine:
    variants, every = Counter[str](), Counter[str]()
    for part in rows:
        variants[part.verdict] += part.rows if part.role == "variant" else 0
        every[part.verdict] += part.rows
    return RunLine(
        bundle=stored.id,
        name=stored.name,
        created=stored.created,
        hardware=", ".join(dict.fromkeys(part.hardware for part in rows)),
        targets=tuple(dict.fromkeys(part.target for part in rows)),
        rows=sum(part.rows for part in rows),
        verdicts=most_frequent(variants),
        distrusted=sum(every[verdict] for verdict in DISTRUSTED),
        skipped=every[Verdict.SKIPPED],
        ending="" if stored.complete else "not complete",
        labels=tuple(sorted(stored.labels.items())),
        loads=len(stored.loads),
        fleets=len(stored.fleets),
    )
