"""Remove the folders of old bundles. Their figures stay in the store, with a tombstone that says when and why."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database
from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.listing import removable, remove
from aiperf_core.results.seal_check import check


@frozen
class Prunable:
    """A stored bundle whose folder may be removed.

    size_bytes: of the files in the folder.
    """

    id: str
    path: Path
    size_bytes: int


@frozen
class Kept:
    """A stored bundle that the rule gives up, and whose folder stays. reason: why."""

    path: Path
    reason: str


def prunable(database: Database, keep: int) -> list[Prunable | Kept]:
    """The bundles of which no series needs the samples, the oldest first.

    keep: of each series the newest `keep` bundles with a folder keep it. A bundle without rows is kept.

    A folder is given up only if it holds the stored bundle, unchanged, and nothing else.
    """
    return [_looked_at(seal, Path(path)) for seal, path in _given_up(database, keep)]


def _given_up(database: Database, keep: int) -> Sequence[tuple[str, str]]:
    bundle, target, row = tables.bundle, tables.target, tables.row
    with database.reading() as connection:
        every = connection.execute(
            sa.select(bundle.c.id, bundle.c.path).order_by(bundle.c.created_s.desc(), bundle.c.name.desc(), bundle.c.id)
        ).all()
        there = {seal: path for seal, path in every if (Path(path) / MANIFEST).exists()}
        joined = row.join(target, target.c.id == row.c.target)
        of: dict[str, list[int]] = {}
        for seal, number in connection.execute(sa.select(target.c.bundle, row.c.series).select_from(joined)):
            if seal in there:
                of.setdefault(seal, []).append(number)
    met: dict[int, int] = {}  # how many newer bundles of a series have a folder
    found: list[tuple[str, str]] = []
    for seal, path in there.items():
        numbers = of.get(seal, [])
        if numbers and all(met.get(number, 0) >= keep for number in numbers):
            found.append((seal, path))
        for number in set(numbers):
            met[number] = met.get(number, 0) + 1
    return found[::-1]


def _looked_at(seal: str, path: Path) -> Prunable | Kept:
    try:
        removable(path)
        bundle = Bundle.open(path)
        sealed = check(bundle, samples=False)
        if bundle.manifest.hashes.get(MANIFEST) != seal:
            return Kept(path, f"'{words(str(path))}' holds another bundle than the one that was added from there")
        if not sealed.holds:
            return Kept(path, sealed.told())
    except BundleError as error:
        return Kept(path, str(error))
    return Prunable(seal, path, sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))


def prune(database: Database, found: Sequence[Prunable], rule: str) -> Iterator[Prunable]:
    """Remove folders, each after its tombstone is stored. Yields those that are gone.

    A kill in between leaves a tombstone and a folder, which the next call removes. Raises BundleError for a folder
    that cannot be removed.
    """
    for one in found:
        with database.writing() as connection:
            there = sa.select(tables.tombstone.c.bundle).where(tables.tombstone.c.bundle == one.id)
            if connection.execute(there).first() is None:
                values = {"bundle": one.id, "pruned_s": time.time(), "rule": rule}
                connection.execute(sa.insert(tables.tombstone).values(values))
        remove(one.path)
        yield one
