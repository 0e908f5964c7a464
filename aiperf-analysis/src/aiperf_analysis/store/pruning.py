"""Remove the folders of old bundles.

Their figures stay in the store, as do their files without samples, and a tombstone says when and why.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlalchemy as sa
from attrs import frozen

from aiperf_analysis.store import tables
from aiperf_analysis.store.adding import files_of
from aiperf_analysis.store.database import Database
from aiperf_analysis.store.figures import newest_first
from aiperf_core.errors import BundleError, ExitCode
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
    """A stored bundle that the rule gives up, and whose folder stays.

    reason: why. exit_code: 3 for a bundle that was changed after its run, else 0.
    """

    path: Path
    reason: str
    exit_code: ExitCode = ExitCode.OK


def prunable(database: Database, keep: int) -> list[Prunable | Kept]:
    """The bundles of which no series needs the samples, the oldest first.

    keep: of each series the newest `keep` bundles with a folder keep it. A bundle without rows is kept.

    A folder is given up only if it holds the stored bundle, unchanged, and nothing else.
    """
    return [_looked_at(seal, Path(path)) for seal, path in _given_up(database, keep)]


def _given_up(database: Database, keep: int) -> Sequence[tuple[str, str]]:
    bundle, row = tables.bundle, tables.row
    with database.reading() as connection:
        wanted = sa.select(bundle.c.number, bundle.c.id, bundle.c.path).order_by(*newest_first())
        every = connection.execute(wanted).all()
        there = {number: (seal, path) for number, seal, path in every if (Path(path) / MANIFEST).exists()}
        of: dict[int, list[int]] = {}
        for number, key in connection.execute(sa.select(row.c.bundle, row.c.series)):
            if number in there:
                of.setdefault(number, []).append(key)
    met: dict[int, int] = {}  # by series, how many newer bundles have a folder
    found: list[tuple[str, str]] = []
    for number, stored in there.items():
        keys = set(of.get(number, ()))
        if keys and all(met.get(key, 0) >= keep for key in keys):
            found.append(stored)
        for key in keys:
            met[key] = met.get(key, 0) + 1
    return found[::-1]


def _looked_at(seal: str, path: Path) -> Prunable | Kept:
    try:
        removable(path)
        bundle = Bundle.open(path)
        sealed = check(bundle)
        if bundle.manifest.hashes.get(MANIFEST) != seal:
            return Kept(path, f"'{words(str(path))}' holds another bundle than the one that was added from there")
        if not sealed.holds:
            return Kept(path, sealed.told(), ExitCode.INVALID)
    except BundleError as error:
        return Kept(path, str(error))
    return Prunable(seal, path, sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))


def prune(database: Database, found: Sequence[Prunable], rule: str) -> Iterator[Prunable]:
    """Remove folders, each after its tombstone and its files, samples excluded, are stored. Yields those that are gone.

    A kill in between leaves a tombstone and a folder, which the next call removes. Raises BundleError for a folder
    that cannot be removed.
    """
    insert = database.insert
    for one in found:
        files = files_of(Bundle.open(one.path))
        with database.writing() as connection:
            number = connection.execute(
                sa.select(tables.bundle.c.number).where(tables.bundle.c.id == one.id)
            ).scalar_one()
            tombstone = {"bundle": number, "pruned_s": time.time(), "rule": rule}
            connection.execute(insert(tables.tombstone).values(tombstone).on_conflict_do_nothing())
            connection.execute(
                insert(tables.file).on_conflict_do_nothing(), [{**file, "bundle": number} for file in files]
            )
        remove(one.path)
        yield one
