"""Read from a store: selections for analyses, and figures of many rows by SQL.

`select` gives what `aiperf_analysis.selection.select` gives from the bundles: the store keeps the files of a bundle,
samples excluded, byte for byte, and their hashes are checked against the seal when they are read. The other functions
answer from the indexed figures alone: `counts`, `series`, `board` and `sketch`.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from attrs import fields, frozen

from aiperf_analysis.documents import path_of
from aiperf_analysis.selection import Entry, Measured, Selection, SeriesKey, fits, not_read
from aiperf_analysis.store import tables
from aiperf_analysis.store.database import BINARY, Database, StoreError, opened
from aiperf_core.errors import BundleError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.report.result import LeftOut
from aiperf_core.results import jsontext
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST, TARGETS, file_name
from aiperf_core.results.models import DISBELIEVED, SCHEMA_VERSION, Document, Manifest, TargetResult, Verdict
from aiperf_core.results.seal import seal_of
from aiperf_core.results.seal_check import SealError, check
from aiperf_core.results.structure import ON_DISK, structure

if TYPE_CHECKING:
    from aiperf_analysis.store import sketches

CHUNK = 500  # values in a list of a statement; engines have a limit
PART = 250  # rows of a long answer that are read at a time
FEW = 50  # bundles of a large store that are read at once
MOST_BYTES = 1 << 29  # of a stored file, as of a file in a bundle
Kept = TypeVar("Kept")
NOT_BELIEVED = [verdict.value for verdict in DISBELIEVED]


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
    """The rows of a store that match the filters, as `aiperf_analysis.selection.select` reads them from bundles.

    Samples are read from the bundle's folder where it is still there and unchanged.

    run: the seal of the only bundle that is read, or the begin of it.
    most: the number of results after which older bundles are left out; a `LeftOut` then says how many these are.

    Raises UsageError for a text that is no URL of a store, StoreError where the store cannot be read.
    """

    def accepted(stored: Any) -> bool:
        return (
            fits(stored.name, targets)
            and (device is None or stored.device == device)
            and (hardware is None or fnmatchcase(stored.hardware, hardware))
        )

    runs: list[Measured] = []
    every: list[Entry] = []
    unreadable: list[LeftOut] = []
    with opened(url) as database, database.reading() as connection:
        every_bundle = _bundles(connection, labels or {}, run)
        size, asked_for = (CHUNK if most is None else FEW), 0
        for start, some in enumerate(chunks(every_bundle, size)):
            if most is not None and asked_for >= most:
                unreadable.append(_older(every_bundle[start * size :], start * size))
                break
            wanted = [one for one in _targets(connection, [bundle.number for bundle in some]) if accepted(one)]
            asked_for += len(wanted)
            documents = _data(connection, tables.document.c.target, [one.id for one in wanted])
            manifests = _data(connection, tables.manifest.c.bundle, [one.number for one in some])
            for bundle in some:
                try:
                    read = _run(bundle, manifests[bundle.number])
                    results = [
                        _result(read, one.name, documents[one.id])
                        for one in sorted(wanted, key=lambda one: str(one.name))
                        if one.bundle == bundle.number
                    ]
                except BundleError as error:
                    unreadable.append(not_read(bundle.name, error))
                    continue
                runs.append(read)
                every += [Entry(read, result, row) for result in results for row in result.rows]
    runs.sort(key=lambda run: run.created, reverse=True)
    return Selection(runs, every, unreadable, tuple(targets))


def chunks(values: Sequence[Any], size: int = CHUNK) -> Iterator[Sequence[Any]]:
    """Parts of a list for statements."""
    return (values[start : start + size] for start in range(0, len(values), size))


def _older(bundles: Sequence[Any], read: int) -> LeftOut:
    """What says that the older bundles of a large store were not read."""
    return LeftOut(
        f"{len(bundles):,} older runs",
        "",
        f"only the newest {read:,} runs of this large store are read here; narrow the filters, or use the command",
    )


def _bundles(connection: sa.Connection, labels: Mapping[str, str], run: str | None = None) -> Sequence[Any]:
    """The bundles with all these labels, newest first, as in a listing of folders."""
    bundle, label = tables.bundle, tables.label
    wanted = sa.select(bundle.c.number, bundle.c.id, bundle.c.name, bundle.c.path, bundle.c.schema_version)
    for name, value in labels.items():
        having = sa.select(label.c.bundle).where(label.c.name == name, label.c.value == value)
        wanted = wanted.where(bundle.c.number.in_(having))
    if run is not None:
        wanted = wanted.where(bundle.c.id.startswith(run, autoescape=True))
    return connection.execute(wanted.order_by(*newest_first())).all()


def newest_first() -> "tuple[sa.ColumnElement[Any], ...]":
    """The order of bundles in listings."""
    return tables.bundle.c.created_s.desc(), tables.bundle.c.name.desc(), tables.bundle.c.id


def _targets(connection: sa.Connection, bundles: Sequence[int]) -> Sequence[Any]:
    one = tables.target
    wanted = sa.select(one.c.id, one.c.bundle, one.c.name, one.c.device, one.c.hardware)
    return connection.execute(wanted.where(one.c.bundle.in_(bundles))).all()


def _data(connection: sa.Connection, key: "sa.Column[Any]", keys: Sequence[Any]) -> dict[Any, bytes]:
    """The stored files of some bundles or targets."""
    found: dict[Any, bytes] = {}
    for some in chunks(keys):
        wanted = sa.select(key, key.table.c.data).where(key.in_(some))
        found |= {one[0]: one[1] for one in connection.execute(wanted)}
    return found


def _run(stored: Any, data: bytes) -> Measured:
    """A bundle. Raises BundleError where it is of another format, or the store was damaged."""
    where = f"'{words(stored.name)}' in the store"
    if stored.schema_version != SCHEMA_VERSION:
        newer = stored.schema_version > SCHEMA_VERSION
        todo = "Upgrade aiperf-core." if newer else "Run its targets again."
        raise BundleError(
            f"{where} has format {stored.schema_version}, and this aiperf reads format {SCHEMA_VERSION} only. {todo}"
        )
    found = _parsed(data, where)
    if not isinstance(found, dict) or not isinstance(found.get("hashes"), dict) or seal_of(found) != stored.id:
        raise _damaged(where, "its manifest does not agree with its seal")
    return Measured(stored.id, stored.path, _record(found, Manifest, where), _folder(stored.path, stored.id))


def _result(run: Measured, name: str, data: bytes) -> TargetResult:
    """A target of a bundle. Raises BundleError where the store was damaged."""
    where = f"'{words(name)}' of '{words(run.path)}' in the store"
    return _sealed(run, f"{TARGETS}/{file_name(name)}.json", data, TargetResult, where)


def _sealed(run: Measured, file: str, data: bytes, record: type[Kept], where: str) -> Kept:
    """The record of a stored file. Raises BundleError where it is not that of the seal."""
    content = _unpacked(data, where)
    if hashlib.sha256(content).hexdigest() != run.manifest.hashes.get(file):
        raise _damaged(where, "its file does not agree with the seal")
    return _record(jsontext.loads(content), record, where)


def _unpacked(data: bytes, where: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        return unpacking.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise _damaged(where, str(error)) from None


def _parsed(data: bytes, where: str) -> Any:
    try:
        return jsontext.loads(_unpacked(data, where))
    except jsontext.JsonError as error:
        raise _damaged(where, str(error)) from None


def _record(found: Any, record: type[Kept], where: str) -> Kept:
    try:
        return structure(found, record, ON_DISK)
    except jsontext.JsonError as error:
        raise _damaged(where, str(error)) from None


def _damaged(where: str, problem: str) -> SealError:
    return SealError(
        f"{where} was changed after it was added: {problem}. Restore a copy of the store, or make a new one and add "
        "the bundles again."
    )


def _folder(path: str, seal: str) -> Bundle | None:
    """The bundle's folder; None where it is gone, was changed, or holds another bundle."""
    folder = Path(path)
    if not (folder / MANIFEST).exists():
        return None
    bundle = Bundle(folder)
    try:
        found = check(bundle, samples=False)
        return bundle if found.holds and bundle.manifest.hashes.get(MANIFEST) == seal else None
    except BundleError:
        return None


# --- by SQL


@frozen
class Count:
    """How many rows of the newest results have this in common. Controls are not counted."""

    hardware: str
    goal: str
    verdict: str
    rows: int


@frozen
class Counts:
    """The size of a store, and the verdicts of the newest results.

    bundles, targets, rows, points: of the whole store; points are those of loads.
    newest: by kind of machine, goal and verdict, of the newest result of each target, device, kind of machine and size.
    """

    bundles: int
    targets: int
    rows: int
    points: int
    newest: list[Count]


def state(database: Database) -> str:
    """A text that changes whenever a bundle is added, moved or pruned, or its documents are added later."""
    bundle = tables.bundle
    wanted = sa.select(sa.func.count(), sa.func.max(bundle.c.number), sa.func.max(bundle.c.ingested_s))
    with database.reading() as connection:
        count, last, ingested = connection.execute(wanted.select_from(bundle)).one()
        others = [
            connection.execute(sa.select(sa.func.count()).select_from(one)).scalar()
            for one in (tables.tombstone, tables.load, tables.fleet)
        ]
    return "-".join(map(str, (count, last, ingested, *others)))


def rows_in(database: Database) -> int:
    """How many rows are stored."""
    with database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.sum(tables.bundle.c.rows))).scalar() or 0)


def counts(database: Database, *, targets: Sequence[str] = (), hardware: str | None = None) -> Counts:
    """Count what is stored. The filters are patterns, and apply to `newest`."""
    bundle, newest, target, row = tables.bundle, tables.newest, tables.target, tables.row
    with database.reading() as connection:
        total = sa.select(sa.func.count(), sa.func.sum(bundle.c.targets), sa.func.sum(bundle.c.rows))
        bundles, every, rows = connection.execute(total.select_from(bundle)).one()
        points = connection.execute(sa.select(sa.func.count()).select_from(tables.load_point)).scalar_one()
        joined = newest.join(target, target.c.id == newest.c.target).join(row, row.c.target == newest.c.target)
        by = (newest.c.name, newest.c.hardware, target.c.goal, row.c.verdict)
        grouped = sa.select(*by, sa.func.count()).select_from(joined).where(row.c.role != "control").group_by(*by)
        found: dict[tuple[str, str, str], int] = {}
        for name, kind, goal, verdict, count in connection.execute(grouped):
            if fits(name, targets) and (hardware is None or fnmatchcase(kind, hardware)):
                found[kind, goal, verdict] = found.get((kind, goal, verdict), 0) + count
    listed = [Count(kind, goal, verdict, count) for (kind, goal, verdict), count in sorted(found.items())]
    return Counts(bundles, int(every or 0), int(rows or 0), points, listed)


@frozen
class Points:
    """The believed rows of a series in the order of time, as columns of one length.

    bundle: the seal of each row's bundle.
    created: when its run began.
    git: of the working directory of the run.
    floor: the smallest relative change that matters, by the newest row; 0 for no rows.
    """

    bundle: list[str]
    created: list[str]
    git: list[str | None]
    verdict: list[str]
    time_s: list[float | None]
    time_s_low: list[float | None]
    time_s_high: list[float | None]
    speedup: list[float | None]
    speedup_low: list[float | None]
    speedup_high: list[float | None]
    peak_bytes: list[float | None]
    joules: list[float | None]
    floor: float

    def __len__(self) -> int:
        return len(self.bundle)


def key_of(database: Database, digest: str) -> SeriesKey | None:
    """The key of the series with this digest; None where there is none."""
    of = tables.series
    with database.reading() as connection:
        found = connection.execute(sa.select(of).where(of.c.digest == digest)).one_or_none()
    return None if found is None else key_from(found)


def key_from(found: Any) -> SeriesKey:
    """The key that a row of the table `series` has."""
    return SeriesKey(
        target=found.target,
        implementation=found.implementation,
        device=found.device,
        hardware=found.hardware,
        params=tuple((name, value) for name, value in json.loads(found.params)),
        clock=found.clock,
        cache=found.cache,
        precision=found.precision,
    )


def series(database: Database, key: SeriesKey | str, limit: int = 10_000) -> Points:
    """The newest points of a series, at most `limit`. Empty for an unknown key.

    key: of the rows, or its digest.
    """
    digest = key if isinstance(key, str) else key.digest
    bundle, row = tables.bundle, tables.row
    # Thousands of rows are read: only the columns that the points have.
    names = [one.name for one in fields(Points)][3:-1]
    number = sa.select(tables.series.c.id).where(tables.series.c.digest == digest).scalar_subquery()
    wanted = (
        sa.select(
            bundle.c.id,
            bundle.c.created,
            bundle.c.git,
            *(row.c[name] for name in names),
        )
        .select_from(row.join(bundle, bundle.c.number == row.c.bundle))
        .where(row.c.series == number, row.c.verdict.not_in(NOT_BELIEVED))
        .order_by(row.c.created_s.desc(), row.c.bundle.desc())
        .limit(limit)
        .execution_options(**{BINARY: True})
    )
    of = tables.target
    newest = (
        sa.select(of.c.floor)
        .join(row, row.c.target == of.c.id)
        .where(row.c.series == number, row.c.verdict.not_in(NOT_BELIEVED))
        .order_by(row.c.created_s.desc(), row.c.bundle.desc())
        .limit(1)
    )
    with database.reading() as connection:
        columns: list[Any] = [[] for _ in fields(Points)[:-1]]
        # Part by part: thousands of rows at once would set the garbage collector going.
        for part in connection.execute(wanted).partitions(PART):
            for column, values in zip(columns, zip(*part, strict=True), strict=True):
                column.extend(values)
        floor = float(connection.execute(newest).scalar() or 0.0)
    return Points(*[*(column[::-1] for column in columns), floor])


def _estimate(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    return None if value is None or low is None or high is None else Estimate(value, low, high)


@frozen
class BoardRow:
    """A row of the newest result of a target, for a table of its implementations.

    series: the digest of the key of its series.
    params: the sizes of the workload.
    """

    bundle: str
    created: str
    target: str
    row: str
    hardware: str
    device: str
    params: dict[str, float]
    goal: str
    role: str
    verdict: Verdict
    reason: str | None
    time_s: Estimate | None
    speedup: Estimate | None
    memory_gain: float | None
    light_fraction: float | None
    peak_bytes: float | None
    joules: float | None
    series: str


def board(database: Database, target: str = "*", hardware: str = "*") -> list[BoardRow]:
    """The rows of the newest results, by target, kind of machine and size, in the order of the target's file.

    Rows that are not believed are among them, without figures. Controls are not.

    target, hardware: patterns.
    """
    newest, of, row, bundle, key = tables.newest, tables.target, tables.row, tables.bundle, tables.series
    joined = (
        newest.join(of, of.c.id == newest.c.target)
        .join(bundle, bundle.c.number == of.c.bundle)
        .join(row, row.c.target == of.c.id)
        .join(key, key.c.id == row.c.series)
    )
    wanted = (
        sa.select(
            of.c.name.label("target"),
            of.c.hardware,
            of.c.device,
            of.c.params,
            of.c.goal,
            bundle.c.id.label("bundle"),
            bundle.c.created,
            row.c.name.label("row"),
            row.c.role,
            row.c.verdict,
            row.c.reason,
            *(row.c[f"{name}{end}"] for name in ("time_s", "speedup") for end in ("", "_low", "_high")),
            row.c.memory_gain,
            row.c.light_fraction,
            row.c.peak_bytes,
            row.c.joules,
            key.c.digest,
        )
        .select_from(joined)
        .where(row.c.role != "control")
        .order_by(newest.c.name, newest.c.hardware, newest.c.device, newest.c.params_hash, row.c.position)
    )
    with database.reading() as connection:
        for column, pattern in ((newest.c.name, target), (newest.c.hardware, hardware)):
            if not _is_pattern(pattern):
                wanted = wanted.where(column == pattern)
        found = connection.execute(wanted).all()
    return [_board_row(one) for one in found if fnmatchcase(one.target, target) and fnmatchcase(one.hardware, hardware)]


def _is_pattern(text: str) -> bool:
    return any(one in text for one in "*?[")


def _board_row(one: Any) -> BoardRow:
    return BoardRow(
        bundle=one.bundle,
        created=one.created,
        target=one.target,
        row=one.row,
        hardware=one.hardware,
        device=one.device,
        params=dict(json.loads(one.params)),
        goal=one.goal,
        role=one.role,
        verdict=Verdict(one.verdict),
        reason=one.reason,
        time_s=_estimate(one.time_s, one.time_s_low, one.time_s_high),
        speedup=_estimate(one.speedup, one.speedup_low, one.speedup_high),
        memory_gain=one.memory_gain,
        light_fraction=one.light_fraction,
        peak_bytes=one.peak_bytes,
        joules=one.joules,
        series=one.digest,
    )


def sketch(database: Database, bundle: str, target: str, row: str) -> "sketches.Sketch | None":
    """The samples of a row in little, also where the folder is gone; None where the row has none."""
    from aiperf_analysis.store import sketches

    of, one = tables.target, tables.sketch
    wanted = (
        sa.select(one.c.samples, one.c.data)
        .join(of, of.c.id == one.c.target)
        .join(tables.bundle, tables.bundle.c.number == of.c.bundle)
        .where(tables.bundle.c.id == bundle, of.c.name == target, one.c.row == row)
    )
    with database.reading() as connection:
        found = connection.execute(wanted).one_or_none()
    try:
        return sketches.from_bytes(*found) if found else None
    except ValueError as error:
        raise StoreError(f"{database.name} is damaged: it has {error} of '{words(target)}:{words(row)}'.") from None


# The tables of the documents of other packages, by their kinds.
_DOCUMENTS = {"load": tables.load, "fleet": tables.fleet}


def document(database: Database, run: Measured, kind: str, name: str) -> Document:
    """The document of a stored bundle. Raises BundleError where the store has it not, or was damaged."""
    of = _DOCUMENTS[kind]
    wanted = (
        sa.select(of.c.data)
        .join(tables.bundle, tables.bundle.c.number == of.c.bundle)
        .where(tables.bundle.c.id == run.id, of.c.name == name)
    )
    where = f"'{kind}/{words(name)}' of '{words(run.path)}'"
    with database.reading() as connection:
        found = connection.execute(wanted).scalar()
    if found is None:
        raise BundleError(
            f"{where} is not in the store, for the bundle was added by an older version. Add the bundle again: "
            "aiperf db add BUNDLE"
        )
    return _sealed(run, path_of(kind, name), found, Document, f"{where} in the store")
