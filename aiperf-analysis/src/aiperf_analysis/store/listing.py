"""The bundles of a store in a list."""

from pathlib import Path

import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database
from aiperf_analysis.store.reading import chunks, newest_first
from aiperf_core.results.filenames import MANIFEST


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


def listed(database: Database, limit: int | None = None, offset: int = 0) -> list[Stored]:
    """The bundles of a store, newest first; at most `limit`, after the first `offset`."""
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
        found = connection.execute(wanted.order_by(*newest_first()).limit(limit).offset(offset)).all()
        for some in chunks([one.number for one in found]):
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
            id=one.id,
            name=one.name,
            path=one.path,
            created=one.created,
            targets=one.targets,
            rows=one.rows,
            complete=bool(one.complete),
            exit_code=one.exit_code,
            hardware=kinds.get(one.number, []),
            labels=labels.get(one.number, {}),
            loads=loads.get(one.number, {}),
            fleets=fleets.get(one.number, {}),
            folder=_state(one.path, one.pruned_s is not None),
        )
        for one in found
    ]


def _state(path: str, pruned: bool) -> str:
    return "there" if (Path(path) / MANIFEST).exists() else "pruned" if pruned else "gone"
