"""Read the results of stored bundles, for analyses.

`select` gives what `aiperf_analysis.selection.select` gives from the bundles, which it reads from their folders. Of a
bundle whose folder is not at hand the store may keep the files, samples excluded, byte for byte: see
`adding.files_of`. Their hashes are checked against the seal when they are read.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from aiperf_analysis.documents import sealed_names
from aiperf_analysis.selection import Measured, Read, Selection, fits, gathered, not_read, read_bundle
from aiperf_analysis.store import tables
from aiperf_analysis.store.database import Database, opened
from aiperf_analysis.store.figures import newest_first
from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.report.result import ChangedBundle, LeftOut
from aiperf_core.results import jsontext
from aiperf_core.results.filenames import MANIFEST, TARGETS, document_path
from aiperf_core.results.models import SCHEMA_VERSION, Document, Manifest, TargetResult
from aiperf_core.results.seal import seal_of
from aiperf_core.results.seal_check import SealError
from aiperf_core.results.structure import ON_DISK, structure

MOST_BYTES = 1 << 29  # of a stored file, as of a file in a bundle
WHOLE = ((None, None),)  # every row of a bundle
Kept = TypeVar("Kept")


def select(
    url: str,
    *,
    targets: Sequence[str] = (),
    hardware: str | None = None,
    device: str | None = None,
    labels: Mapping[str, str] | None = None,
    run: str | None = None,
    most: int | None = None,
) -> Selection:
    """The rows of stored bundles that match the filters, as `aiperf_analysis.selection.select` reads them from bundles.

    run: the seal of the only bundle that is read, or the begin of it.
    most: the number of results after which older bundles are left out; a `LeftOut` then says how many these are.

    Raises UsageError for a text that is no URL of a store, StoreError where the store cannot be read.
    """
    reads: list[Read | LeftOut] = []
    results = 0
    with opened(url) as database, database.reading() as connection:
        bundles = _bundles(connection, labels or {}, run)
        for place, stored in enumerate(bundles):
            if most is not None and results >= most:
                reads.append(_older(len(bundles) - place, place))
                break
            read = _read(connection, stored, lambda name: fits(name, targets))
            results += len(read.results) if isinstance(read, Read) else 0
            reads.append(read)
    return gathered([(read, WHOLE) for read in reads], targets=targets, hardware=hardware, device=device)


def _older(count: int, read: int) -> LeftOut:
    """The bundles of a store with many results that were not read."""
    return LeftOut(
        f"{count:,} older runs",
        "",
        f"only the newest {read:,} runs of this store are read here; narrow the filters, or use the command",
    )


def _bundles(connection: sa.Connection, labels: Mapping[str, str], run: str | None) -> Sequence[Any]:
    """The bundles with all these labels, newest first, as in a listing of folders."""
    bundle, label = tables.bundle, tables.label
    wanted = sa.select(bundle.c.number, bundle.c.id, bundle.c.name, bundle.c.path, bundle.c.schema_version)
    for name, value in labels.items():
        having = sa.select(label.c.bundle).where(label.c.name == name, label.c.value == value)
        wanted = wanted.where(bundle.c.number.in_(having))
    if run is not None:
        wanted = wanted.where(bundle.c.id.startswith(run, autoescape=True))
    return connection.execute(wanted.order_by(*newest_first())).all()


def _read(connection: sa.Connection, stored: Any, accept: Callable[[str], bool]) -> Read | LeftOut:
    """A stored bundle, from its folder if it is there and unchanged, else from the files that the store keeps."""
    folder = Path(stored.path)
    read = read_bundle(folder, accept) if (folder / MANIFEST).exists() else None
    if isinstance(read, Read) and read.run.id == stored.id:
        return read
    files = tables.file
    kept = connection.execute(sa.select(files.c.path, files.c.data).where(files.c.bundle == stored.number)).all()
    if kept:
        try:
            return _kept(stored, {file.path: file.data for file in kept}, accept)
        except BundleError as error:
            return not_read(stored.name, error)
    if isinstance(read, ChangedBundle):
        return read
    return LeftOut(
        words(stored.name),
        "",
        f"its folder '{words(stored.path)}' is gone, or holds another run now; the lists of the dashboard and the "
        "series have its figures. If it was moved: aiperf db add FOLDER",
    )


# --- files that the store keeps


def _kept(stored: Any, files: Mapping[str, bytes], accept: Callable[[str], bool]) -> Read:
    """A bundle by its files. Raises BundleError where it is of another format, or the store was damaged."""
    where = f"'{words(stored.name)}' in the store"
    if stored.schema_version != SCHEMA_VERSION:
        newer = stored.schema_version > SCHEMA_VERSION
        todo = "Upgrade aiperf-core." if newer else "Run its targets again."
        raise BundleError(
            f"{where} has format {stored.schema_version}, and this aiperf reads format {SCHEMA_VERSION} only. {todo}"
        )
    document = _parsed(_unpacked(files.get(MANIFEST, b""), where), where)
    if not isinstance(document, dict) or not isinstance(document.get("hashes"), dict) or seal_of(document) != stored.id:
        raise _damaged(where, "its manifest does not agree with its seal")
    run = Measured(stored.id, stored.path, _record(document, Manifest, where))
    return Read(run, list(_results(run, files, accept)))


def _results(run: Measured, files: Mapping[str, bytes], accept: Callable[[str], bool]) -> Iterator[TargetResult]:
    for name in sealed_names(run.manifest, TARGETS):
        if accept(name):
            path, where = document_path(TARGETS, name), f"'{words(name)}' of '{words(run.path)}' in the store"
            yield _sealed(run, path, files.get(path, b""), TargetResult, where)


def document(database: Database, run: Measured, kind: str, name: str) -> Document:
    """The document of a bundle whose files are kept. Raises BundleError where the store has it not, or was damaged."""
    files = tables.file
    path, where = document_path(kind, name), f"'{kind}/{words(name)}' of '{words(run.path)}' in the store"
    wanted = (
        sa.select(files.c.data)
        .join(tables.bundle, tables.bundle.c.number == files.c.bundle)
        .where(tables.bundle.c.id == run.id, files.c.path == path)
    )
    with database.reading() as connection:
        data = connection.execute(wanted).scalar()
    return _sealed(run, path, data or b"", Document, where)


def _sealed(run: Measured, path: str, data: bytes, record: type[Kept], where: str) -> Kept:
    """The record of a stored file. Raises BundleError where it is not that of the seal."""
    content = _unpacked(data, where)
    if hashlib.sha256(content).hexdigest() != run.manifest.hashes.get(path):
        raise _damaged(where, "its file does not agree with the seal")
    return _record(_parsed(content, where), record, where)


def _unpacked(data: bytes, where: str) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise _damaged(where, str(error)) from None


def _parsed(content: bytes, where: str) -> Any:
    try:
        return jsontext.loads(content)
    except jsontext.JsonError as error:
        raise _damaged(where, str(error)) from None


def _record(document: Any, record: type[Kept], where: str) -> Kept:
    try:
        return structure(document, record, ON_DISK)
    except jsontext.JsonError as error:
        raise _damaged(where, str(error)) from None


def _damaged(where: str, problem: str) -> SealError:
    return SealError(
        f"{where} was changed after it was added: {problem}. Restore a copy of the store, or make a new one and add "
        "the bundles again."
    )
